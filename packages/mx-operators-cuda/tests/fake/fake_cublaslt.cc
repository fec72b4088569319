// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt for the fake driver: checks what it is told, and computes a product and its epilogue by their definition.
//
// FAKE_CUBLASLT_LOG: a file that gets a line per product, with its epilogue.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "fake_matrix.hpp"

using namespace fake;

namespace {

enum { kOk = 0, kInvalid = 7, kUnsupported = 15 };
enum : uint32_t { kRelu = 2, kBias = 4 };
constexpr size_t kWorkspace = 4096;
constexpr uint64_t kMark = 0x6c74;  // of an algorithm

struct Handle {};
struct Desc {
  std::map<int, std::vector<char>> set;
  template <class T> T get(int attribute, T otherwise) const {
    const auto found = set.find(attribute);
    if (found == set.end()) return otherwise;
    T value;
    std::memcpy(&value, found->second.data(), sizeof value);
    return value;
  }
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t row;
};
struct Algorithm {
  uint64_t data[8];
};
struct Choice {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

struct Call {
  Matrix a, b, c;
  int m, n, k;
  float beta;
  uint32_t epilogue;
  Matrix bias;  // a column
  unsigned long long workspace;

  void run() const {
    std::memset(reinterpret_cast<void*>(workspace & ~kFakeDeviceBit), 0x77, kWorkspace);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = beta != 0 ? beta * c.get(c.at(0, i, j)) : 0;
        for (int l = 0; l < k; ++l) sum += a.get(a.at(0, i, l)) * b.get(b.at(0, l, j));
        if ((epilogue & kBias) != 0) sum += bias.get(static_cast<size_t>(i));
        if ((epilogue & kRelu) != 0 && sum < 0) sum = 0;
        c.set(c.at(0, i, j), sum);
      }
    }
  }
  bool fits() const {
    const auto inside = [](const Matrix& x, size_t last) { return fake_owns(x.data, (last + 1) * width(x.type)) != 0; };
    const bool biased = (epilogue & kBias) == 0 || inside(bias, static_cast<size_t>(m - 1));
    return biased && inside(a, a.at(0, m - 1, k - 1)) && inside(b, b.at(0, k - 1, n - 1)) &&
           inside(c, c.at(0, m - 1, n - 1)) && fake_owns(workspace, kWorkspace) != 0;
  }
};

// Whether extents of the three matrices go together.
bool agree(const Desc& desc, const Layout& a, const Layout& b, const Layout& c, int* k) {
  const bool turn_a = desc.get(3, 0) != 0, turn_b = desc.get(4, 0) != 0;
  const uint64_t m = turn_a ? a.columns : a.rows, n = turn_b ? b.rows : b.columns;
  *k = static_cast<int>(turn_a ? a.rows : a.columns);
  for (const Layout* x : {&a, &b, &c}) {
    if (x->rows == 0 || x->columns == 0 || x->row < static_cast<int64_t>(x->rows) || x->type != c.type) return false;
  }
  return m == c.rows && n == c.columns && static_cast<uint64_t>(*k) == (turn_b ? b.columns : b.rows) &&
         c.type != kReal64;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(int status) {
  return status == kInvalid ? "the function got an invalid value" : "the function failed";
}
int cublasLtCreate(Handle** handle) {
  *handle = new Handle;
  return kOk;
}
int cublasLtMatmulDescCreate(Desc** desc, int compute, int scale) {
  if (compute != 68 || scale != kReal32) return kUnsupported;
  *desc = new Desc;
  return kOk;
}
int cublasLtMatmulDescDestroy(Desc* desc) {
  delete desc;
  return kOk;
}
int cublasLtMatmulDescSetAttribute(Desc* desc, int attribute, const void* value, size_t bytes) {
  const std::map<int, size_t> known{{3, 4}, {4, 4}, {7, 4}, {8, 8}};
  const auto found = known.find(attribute);
  if (found == known.end() || found->second != bytes) return kInvalid;
  desc->set[attribute].assign(static_cast<const char*>(value), static_cast<const char*>(value) + bytes);
  return kOk;
}
int cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t row) {
  *layout = new Layout{type, rows, columns, row};
  return kOk;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return kOk;
}
int cublasLtMatmulPreferenceCreate(Desc** preference) {
  *preference = new Desc;
  return kOk;
}
int cublasLtMatmulPreferenceDestroy(Desc* preference) {
  delete preference;
  return kOk;
}
int cublasLtMatmulPreferenceSetAttribute(Desc* preference, int attribute, const void* value, size_t bytes) {
  if (attribute == 1 ? bytes != 8 : bytes != 4 || (attribute != 3 && (attribute < 5 || attribute > 8))) return kInvalid;
  preference->set[attribute].assign(static_cast<const char*>(value), static_cast<const char*>(value) + bytes);
  return kOk;
}
int cublasLtMatmulAlgoGetHeuristic(Handle*, const Desc* desc, const Layout* a, const Layout* b, const Layout* c,
                                   const Layout* d, const Desc* preference, int wanted, Choice* choices, int* found) {
  int k = 0;
  if (wanted < 1 || c != d || !agree(*desc, *a, *b, *c, &k)) return kInvalid;
  if (preference->get<uint32_t>(3, 7) != 2) return kUnsupported;  // sums in the type of the result
  *found = preference->get<uint64_t>(1, 0) >= kWorkspace && preference->get<uint32_t>(5, 256) <= 16 ? 1 : 0;
  if (*found == 0) return kUnsupported;
  choices[0] = Choice{{{kMark}}, kWorkspace, kOk, 1, {}};
  return kOk;
}
int cublasLtMatmul(Handle*, const Desc* desc, const float* alpha, const void* a, const Layout* a_layout, const void* b,
                   const Layout* b_layout, const float* beta, const void* c, const Layout* c_layout, void* d,
                   const Layout* d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   void* stream) {
  int k = 0;
  if (stream == nullptr || *alpha != 1 || c != d || c_layout != d_layout || algorithm->data[0] != kMark ||
      workspace_bytes < kWorkspace || !agree(*desc, *a_layout, *b_layout, *c_layout, &k)) {
    return kInvalid;
  }
  const auto address = [](const void* data) { return reinterpret_cast<unsigned long long>(data); };
  const auto matrix = [&](const void* data, const Layout* layout, bool turned) {
    return Matrix{address(data), layout->type, static_cast<int>(layout->row), 0, turned};
  };
  const uint32_t epilogue = desc->get<uint32_t>(7, 1);
  const auto bias = desc->get<unsigned long long>(8, 0);
  auto* call = new Call{matrix(a, a_layout, desc->get(3, 0) != 0), matrix(b, b_layout, desc->get(4, 0) != 0),
                        matrix(c, c_layout, false), static_cast<int>(c_layout->rows),
                        static_cast<int>(c_layout->columns), k, *beta, epilogue,
                        Matrix{bias, c_layout->type, 1, 0, false}, address(workspace)};
  bool aligned = call->workspace % 256 == 0;
  for (const unsigned long long each : {address(a), address(b), address(c)}) aligned = aligned && each % 16 == 0;
  if ((epilogue & kBias) != 0) aligned = aligned && bias % 16 == 0;
  if (!aligned || !call->fits()) {
    delete call;
    return kInvalid;
  }
  if (const char* log = std::getenv("FAKE_CUBLASLT_LOG")) {
    if (std::FILE* file = std::fopen(log, "a")) {
      std::fprintf(file, "%u %dx%dx%d beta %g\n", epilogue, call->m, call->n, k, static_cast<double>(*beta));
      std::fclose(file);
    }
  }
  fake_enqueue(
      stream, [](void* argument) { static_cast<Call*>(argument)->run(); }, call,
      [](void* argument) { delete static_cast<Call*>(argument); });
  return kOk;
}

}  // extern "C"
