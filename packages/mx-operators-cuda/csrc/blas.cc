// SPDX-License-Identifier: Apache-2.0
#include "blas.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <map>
#include <optional>

#include "lent.hpp"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

// Source: cuBLAS library reference, 12.0 and 13.0.
using Handle = struct HandleTag*;
enum : int { kNoTranspose = 0, kTranspose = 1 };                          // cublasOperation_t
enum : int { kReal32 = 0, kReal64 = 1, kReal16 = 2, kBrain16 = 14 };      // cudaDataType_t
enum : int { kCompute32 = 68, kCompute64 = 70 };                          // cublasComputeType_t
constexpr int kDefaultAlgorithm = -1;                                     // cublasGemmAlgo_t
constexpr int kWideSums = 16;  // cublasMath_t: no TensorFloat-32, and partial sums are never rounded to 16 bits

struct Functions {
  int (*create)(Handle* handle);
  int (*set_stream)(Handle handle, Stream stream);
  int (*set_workspace)(Handle handle, void* workspace, size_t bytes);
  int (*set_math_mode)(Handle handle, int mode);
  const char* (*status_text)(int status);
  int (*multiply)(Handle handle, int transpose_a, int transpose_b, int m, int n, int k,
                  const void* alpha, const void* a, int type_a, int row_a, long long stride_a,
                  const void* b, int type_b, int row_b, long long stride_b, const void* beta,
                  void* c, int type_c, int row_c, long long stride_c, int batch, int compute,
                  int algorithm);
};

// cuBLAS computes in memory of its own unless it is given some.  What it takes itself may be taken while a stream is
// captured, and runs of the graph would share it with whoever gets it next.  32 MiB is what NVIDIA advises for Hopper.
constexpr size_t kWorkspace = size_t{32} << 20;
constexpr uintptr_t kAlignment = 256;
constexpr const char* kHolder = "cuBLAS";  // in statistics

// The handle of a stream, and its workspace.  Both stay as long as the process.
struct Bound {
  Handle handle = nullptr;
  bool complete = false;
  mx_block workspace{};
  const void* given = nullptr;  // the workspace that cuBLAS knows
};

// Those of the streams of a GPU.  A handle is one thread's at a time.
struct OfGpu {
  std::mutex mutex;
  size_t workspace = 0;  // bytes
  std::map<Stream, Bound> streams;
};

struct Blas {
  Functions blas;
  OfGpu gpus[64];
};
std::atomic<Blas*> loaded{nullptr};  // never unloaded

template <class F>
void find(void* library, const std::string& path, const char* symbol, F* function) {
  *function = reinterpret_cast<F>(::dlsym(library, symbol));
  if (*function == nullptr) throw Error(MX_ERROR, "[gpu] cuBLAS: " + path + " has no " + symbol);
}

void check_status(const Functions& blas, int status, const std::string& where, const char* what) {
  if (status == 0) return;
  throw Error(MX_ERROR, "[" + where + "] " + what + ": " + blas.status_text(status) + " (" +
                            std::to_string(status) + ")");
}

// Makes what is missing for a stream, also after a call that failed.
void complete(const Functions& blas, Stream stream, Bound& bound, const std::string& where) {
  if (bound.handle == nullptr) check_status(blas, blas.create(&bound.handle), where, "cublasCreate");
  check_status(blas, blas.set_math_mode(bound.handle, kWideSums), where, "cublasSetMathMode");
  check_status(blas, blas.set_stream(bound.handle, stream), where, "cublasSetStream");
  bound.complete = true;
}

// Bytes of a workspace.  A small GPU, such as a test has, gives a 64th of its memory.
size_t workspace_of(const Gpu& gpu, OfGpu& mine) {
  if (mine.workspace == 0) {
    size_t free_bytes = 0, total = 0;
    gpu.memory(&free_bytes, &total);
    mine.workspace = std::min(kWorkspace, total / 64);
  }
  return mine.workspace;
}

void give(const Functions& blas, Bound& bound, const mx_block& block, const std::string& where) {
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(block.data) + kAlignment - 1) & ~(kAlignment - 1);
  auto* const data = reinterpret_cast<void*>(begin);
  if (bound.given == data) return;
  bound.given = nullptr;
  const size_t bytes = block.bytes - (begin - reinterpret_cast<uintptr_t>(block.data));
  check_status(blas, blas.set_workspace(bound.handle, data, bytes), where, "cublasSetWorkspace");
  bound.given = data;
}

int type_of(int32_t dtype) {
  switch (dtype) {
    case MX_FLOAT32: return kReal32;
    case MX_FLOAT64: return kReal64;
    case MX_FLOAT16: return kReal16;
    case MX_BFLOAT16: return kBrain16;
    default: return -1;
  }
}

}  // namespace

void load_blas(const std::string& path) {
  static std::mutex loading;
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded.load() != nullptr) return;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(MX_ERROR, std::string("[gpu] cuBLAS: ") + ::dlerror());
  auto made = std::make_unique<Blas>();
  find(library, path, "cublasCreate_v2", &made->blas.create);
  find(library, path, "cublasSetStream_v2", &made->blas.set_stream);
  find(library, path, "cublasSetWorkspace_v2", &made->blas.set_workspace);
  find(library, path, "cublasSetMathMode", &made->blas.set_math_mode);
  find(library, path, "cublasGetStatusString", &made->blas.status_text);
  find(library, path, "cublasGemmStridedBatchedEx", &made->blas.multiply);
  loaded.store(made.release());
}

void check_product(const Product& p) {
  if (loaded.load() == nullptr) throw Error(MX_ERROR, "[gpu] cuBLAS is not loaded");
  for (const int64_t size : {p.m, p.n, p.k, p.row_a, p.row_b, p.row_c, p.batch}) {
    if (size <= 0 || size > INT_MAX) {
      throw Error(MX_ERROR_UNSUPPORTED, "[gpu] cuBLAS: size " + std::to_string(size));
    }
  }
  if (type_of(p.dtype) < 0) {
    throw Error(MX_ERROR_UNSUPPORTED, "[gpu] cuBLAS: type code " + std::to_string(p.dtype));
  }
}

void multiply(const Gpu& gpu, Stream stream, const Product& p, const void* a, const void* b, void* c, bool add,
              const Workspaces& workspaces, const std::string& where) {
  Blas& all = *loaded.load();
  OfGpu& mine = all.gpus[gpu.id()];
  const std::lock_guard<std::mutex> lock(mine.mutex);
  Bound& bound = mine.streams[stream];
  if (!bound.complete) complete(all.blas, stream, bound, where);
  const mx_context context{MX_GPU, gpu.id()};
  std::optional<Lent> lent;
  if (workspaces.captured) {
    lent.emplace(*workspaces.storage, context, workspace_of(gpu, mine), kHolder);
  } else if (bound.workspace.data == nullptr) {
    bound.workspace = allocated(*workspaces.storage, context, workspace_of(gpu, mine), kHolder);
  }
  give(all.blas, bound, lent ? lent->block() : bound.workspace, where);
  const bool wide = p.dtype == MX_FLOAT64;
  const float one = 1, beta = add ? 1 : 0;
  const double wide_one = 1, wide_beta = beta;
  const void* alpha_at = wide ? static_cast<const void*>(&wide_one) : &one;
  const void* beta_at = wide ? static_cast<const void*>(&wide_beta) : &beta;
  const int type = type_of(p.dtype);
  const auto narrow = [](int64_t size) { return static_cast<int>(size); };
  // cuBLAS is column-major: it sees every matrix transposed, so B comes first and C is n by m
  const int status = all.blas.multiply(
      bound.handle, p.transpose_b ? kTranspose : kNoTranspose,
      p.transpose_a ? kTranspose : kNoTranspose, narrow(p.n), narrow(p.m), narrow(p.k), alpha_at, b,
      type, narrow(p.row_b), p.stride_b, a, type, narrow(p.row_a), p.stride_a, beta_at, c, type,
      narrow(p.row_c), p.stride_c, narrow(p.batch), wide ? kCompute64 : kCompute32,
      kDefaultAlgorithm);
  check_status(all.blas, status, where, "cublasGemmStridedBatchedEx");
}

}  // namespace mx::cuda
