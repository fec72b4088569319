// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS for the fake driver: the one function used here, by its definition, in column-major order.
#include <cstring>

#include "fake_matrix.hpp"

using namespace fake;

namespace {

enum { kOk = 0, kNotInitialized = 1, kInvalid = 7, kUnsupported = 15 };

struct Handle {
  void* stream = nullptr;
  unsigned long long workspace = 0;
  size_t workspace_bytes = 0;
  int mode = 0;
};

struct Call {
  Matrix a, b, c;
  int m, n, k, batch;
  double alpha, beta;
  unsigned long long workspace;
  size_t workspace_bytes;

  // Both ends of the workspace, which must be there still.
  void use_workspace() const {
    if (fake_owns(workspace, workspace_bytes) == 0) return fake_poison(700);
    const size_t bytes = workspace_bytes < 4096 ? workspace_bytes : 4096;
    char* const memory = reinterpret_cast<char*>(workspace & ~kFakeDeviceBit);
    std::memset(memory, 0x77, bytes);
    std::memset(memory + workspace_bytes - bytes, 0x77, bytes);
  }

  void run() const {
    use_workspace();
    for (int t = 0; t < batch; ++t) {
      for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
          double sum = 0;
          for (int l = 0; l < k; ++l) sum += a.get(a.at(t, i, l)) * b.get(b.at(t, l, j));
          const size_t to = c.at(t, i, j);
          // without beta C is not read: it may hold anything
          c.set(to, alpha * sum + (beta != 0 ? beta * c.get(to) : 0));
        }
      }
    }
  }
  bool fits() const {
    const auto inside = [](const Matrix& x, size_t last) {
      return fake_owns(x.data, (last + 1) * width(x.type)) != 0;
    };
    return inside(a, a.at(batch - 1, m - 1, k - 1)) && inside(b, b.at(batch - 1, k - 1, n - 1)) &&
           inside(c, c.at(batch - 1, m - 1, n - 1));
  }
};

}  // namespace

extern "C" {

int cublasCreate_v2(Handle** handle) {
  *handle = new Handle;
  return kOk;
}
int cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  handle->workspace = 0;  // as cuBLAS does
  return kOk;
}
int cublasSetWorkspace_v2(Handle* handle, void* workspace, size_t bytes) {
  const auto address = reinterpret_cast<unsigned long long>(workspace);
  if (address % 256 != 0 || fake_owns(address, bytes) == 0) return kInvalid;
  handle->workspace = address;
  handle->workspace_bytes = bytes;
  return kOk;
}
int cublasSetMathMode(Handle* handle, int mode) {
  handle->mode = mode;
  return kOk;
}
const char* cublasGetStatusString(int status) {
  return status == kInvalid ? "the function got an invalid value" : "the function failed";
}

int cublasGemmStridedBatchedEx(Handle* handle, int turn_a, int turn_b, int m, int n, int k,
                               const void* alpha, const void* a, int type_a, int row_a,
                               long long stride_a, const void* b, int type_b, int row_b,
                               long long stride_b, const void* beta, void* c, int type_c, int row_c,
                               long long stride_c, int batch, int compute, int) {
  if (handle->stream == nullptr || handle->workspace == 0) return kNotInitialized;
  if (handle->mode != 16) return kUnsupported;  // it may add up in 16 bits
  if (type_a != type_b || type_a != type_c || compute != (type_a == kReal64 ? 70 : 68)) {
    return kUnsupported;
  }
  if (m <= 0 || n <= 0 || k <= 0 || row_a < (turn_a ? k : m) || row_b < (turn_b ? n : k) || row_c < m) {
    return kInvalid;
  }
  const auto number = [&](const void* at) {
    return type_a == kReal64 ? *static_cast<const double*>(at) : *static_cast<const float*>(at);
  };
  const auto address = [](const void* data) { return reinterpret_cast<unsigned long long>(data); };
  auto* call = new Call{{address(a), type_a, row_a, stride_a, turn_a != 0},
                        {address(b), type_b, row_b, stride_b, turn_b != 0},
                        {address(c), type_c, row_c, stride_c, false},
                        m, n, k, batch, number(alpha), number(beta), handle->workspace, handle->workspace_bytes};
  if (!call->fits()) {
    delete call;
    return kInvalid;
  }
  fake_enqueue(
      handle->stream, [](void* argument) { static_cast<Call*>(argument)->run(); }, call,
      [](void* argument) { delete static_cast<Call*>(argument); });
  return kOk;
}

}  // extern "C"
