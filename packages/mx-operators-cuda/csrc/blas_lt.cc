// SPDX-License-Identifier: Apache-2.0
#include "blas_lt.hpp"

#include <dlfcn.h>

#include <atomic>

#include "mx_core/failure.hpp"

namespace mx::cuda::lt {
namespace {

// Source: cuBLAS library reference, 12.0 and 13.0, "Using the cuBLASLt API".
using Handle = struct LtHandleTag*;
using Desc = struct MatmulDescTag*;
using Layout = struct MatrixLayoutTag*;
using Preference = struct PreferenceTag*;
enum : int { kNoTranspose = 0, kTranspose = 1 };                                // cublasOperation_t
enum : int { kReal32 = 0, kReal16 = 2, kBrain16 = 14, kCompute32 = 68 };        // cudaDataType_t, cublasComputeType_t
enum : int { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8 };  // cublasLtMatmulDescAttributes_t
// cublasLtMatmulPreferenceAttributes_t
enum : int { kWorkspaceBytes = 1, kReductions = 3, kAlignmentA = 5, kAlignmentD = 8 };
enum : uint32_t { kPlain = 1, kRelu = 2, kBias = 4 };  // cublasLtEpilogue_t
// cublasLtReductionScheme_t: partial sums are added up in float32, not in the type of the result
constexpr uint32_t kWideSums = 2;

struct Algorithm {
  uint64_t data[8];
};
struct Choice {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

struct Functions {
  size_t (*version)();
  const char* (*status_text)(int status);
  int (*create)(Handle* handle);
  int (*desc_create)(Desc* desc, int compute, int scale);
  int (*desc_destroy)(Desc desc);
  int (*desc_set)(Desc desc, int attribute, const void* value, size_t bytes);
  int (*layout_create)(Layout* layout, int type, uint64_t rows, uint64_t columns, int64_t row);
  int (*layout_destroy)(Layout layout);
  int (*preference_create)(Preference* preference);
  int (*preference_destroy)(Preference preference);
  int (*preference_set)(Preference preference, int attribute, const void* value, size_t bytes);
  int (*choose)(Handle handle, Desc desc, Layout a, Layout b, Layout c, Layout d, Preference preference, int wanted,
                Choice* choices, int* found);
  int (*multiply)(Handle handle, Desc desc, const void* alpha, const void* a, Layout a_layout, const void* b,
                  Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d, Layout d_layout,
                  const Algorithm* algorithm, void* workspace, size_t workspace_bytes, Stream stream);
};

struct Library {
  Functions lt;
  std::mutex mutex;           // guards the handles
  Handle handles[64] = {};  // of GPUs; a handle is any thread's
};
std::atomic<Library*> loaded{nullptr};  // never unloaded

void check_status(int status, const std::string& where, const char* what) {
  if (status == 0) return;
  const char* text = loaded.load()->lt.status_text(status);
  throw Error(MX_ERROR, "[" + where + "] " + what + ": " + (text == nullptr ? "" : text) + " (" +
                            std::to_string(status) + ")");
}

int type_of(int32_t dtype) {
  switch (dtype) {
    case MX_FLOAT32: return kReal32;
    case MX_FLOAT16: return kReal16;
    case MX_BFLOAT16: return kBrain16;
    default: throw Error(MX_ERROR_UNSUPPORTED, "[gpu] cuBLASLt: type code " + std::to_string(dtype));
  }
}

Handle handle_of(const Gpu& gpu) {
  Library& all = *loaded.load();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Handle& handle = all.handles[gpu.id()];
  if (handle == nullptr) check_status(all.lt.create(&handle), gpu.name(), "cublasLtCreate");
  return handle;
}

}  // namespace

size_t load(const std::string& path) {
  static std::mutex loading;
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded.load() == nullptr) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Error(MX_ERROR, std::string("[gpu] cuBLASLt: ") + ::dlerror());
    auto made = std::make_unique<Library>();
    const auto find = [&](const char* symbol, auto* function) {
      *function = reinterpret_cast<std::decay_t<decltype(*function)>>(::dlsym(library, symbol));
      if (*function == nullptr) throw Error(MX_ERROR, "[gpu] cuBLASLt: " + path + " has no " + symbol);
    };
    find("cublasLtGetVersion", &made->lt.version);
    find("cublasLtGetStatusString", &made->lt.status_text);
    find("cublasLtCreate", &made->lt.create);
    find("cublasLtMatmulDescCreate", &made->lt.desc_create);
    find("cublasLtMatmulDescDestroy", &made->lt.desc_destroy);
    find("cublasLtMatmulDescSetAttribute", &made->lt.desc_set);
    find("cublasLtMatrixLayoutCreate", &made->lt.layout_create);
    find("cublasLtMatrixLayoutDestroy", &made->lt.layout_destroy);
    find("cublasLtMatmulPreferenceCreate", &made->lt.preference_create);
    find("cublasLtMatmulPreferenceDestroy", &made->lt.preference_destroy);
    find("cublasLtMatmulPreferenceSetAttribute", &made->lt.preference_set);
    find("cublasLtMatmulAlgoGetHeuristic", &made->lt.choose);
    find("cublasLtMatmul", &made->lt.multiply);
    loaded.store(made.release());
  }
  return loaded.load()->lt.version();
}

// What cuBLASLt wants described; a description is one thread's at a time, since it holds the address of the bias.
struct ProductPlan::Parts {
  explicit Parts(const Gpu& gpu) : handle(handle_of(gpu)) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    const Functions& lt = loaded.load()->lt;
    for (Layout layout : {a, b, c}) {
      if (layout != nullptr) lt.layout_destroy(layout);
    }
    if (preference != nullptr) lt.preference_destroy(preference);
    if (desc != nullptr) lt.desc_destroy(desc);
  }
  const Handle handle;
  std::mutex mutex;  // guards the description
  Desc desc = nullptr;
  Preference preference = nullptr;
  Layout a = nullptr, b = nullptr, c = nullptr;
  Algorithm algorithm{};
};

ProductPlan::ProductPlan(const Epilogue& what, size_t most_workspace, const Gpu& gpu)
    : what_(what), parts_(std::make_unique<Parts>(gpu)) {
  const Functions& lt = loaded.load()->lt;
  const auto ok = [&](int status, const char* function) { check_status(status, gpu.name(), function); };
  const auto set = [&](int attribute, const auto& value) {
    ok(lt.desc_set(parts_->desc, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  const auto prefer = [&](int attribute, const auto& value) {
    ok(lt.preference_set(parts_->preference, attribute, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
  };
  const auto lay = [&](Layout* layout, bool transposed, int64_t rows, int64_t columns, int64_t row) {
    const auto [r, c] = transposed ? std::pair(columns, rows) : std::pair(rows, columns);
    ok(lt.layout_create(layout, type_of(what.dtype), static_cast<uint64_t>(r), static_cast<uint64_t>(c), row),
       "cublasLtMatrixLayoutCreate");
  };
  ok(lt.desc_create(&parts_->desc, kCompute32, kReal32), "cublasLtMatmulDescCreate");
  // column-major: cuBLASLt sees every matrix transposed, so B comes first and C is n by m; the bias is then one per row
  set(kTransposeA, what.transpose_b ? kTranspose : kNoTranspose);
  set(kTransposeB, what.transpose_a ? kTranspose : kNoTranspose);
  const uint32_t parts = (what.bias ? uint32_t{kBias} : 0) | (what.relu ? uint32_t{kRelu} : 0);
  set(kEpilogue, parts == 0 ? kPlain : parts);
  if (what.bias) set(kBiasPointer, reinterpret_cast<const void*>(kWorkspaceAlignment));  // any aligned one
  lay(&parts_->a, what.transpose_b, what.n, what.k, what.row_b);
  lay(&parts_->b, what.transpose_a, what.k, what.m, what.row_a);
  lay(&parts_->c, false, what.n, what.m, what.row_c);
  ok(lt.preference_create(&parts_->preference), "cublasLtMatmulPreferenceCreate");
  prefer(kWorkspaceBytes, most_workspace);
  prefer(kReductions, kWideSums);
  for (int attribute = kAlignmentA; attribute <= kAlignmentD; ++attribute) {
    prefer(attribute, static_cast<uint32_t>(kAlignment));
  }
  Choice choice{};
  int found = 0;
  ok(lt.choose(parts_->handle, parts_->desc, parts_->a, parts_->b, parts_->c, parts_->c, parts_->preference, 1, &choice,
               &found),
     "cublasLtMatmulAlgoGetHeuristic");
  if (found < 1 || choice.status != 0) throw Error(MX_ERROR_UNSUPPORTED, "[gpu] cuBLASLt has no algorithm");
  parts_->algorithm = choice.algorithm;
  workspace_ = choice.workspace;
}

ProductPlan::~ProductPlan() = default;

void ProductPlan::run(Stream stream, const void* a, const void* b, const void* bias, void* c, void* workspace, bool add,
                      const std::string& where) const {
  const Functions& lt = loaded.load()->lt;
  const float alpha = 1, beta = add ? 1 : 0;
  const std::lock_guard<std::mutex> lock(parts_->mutex);
  if (what_.bias) {
    check_status(lt.desc_set(parts_->desc, kBiasPointer, &bias, sizeof bias), where, "cublasLtMatmulDescSetAttribute");
  }
  check_status(lt.multiply(parts_->handle, parts_->desc, &alpha, b, parts_->a, a, parts_->b, &beta, c, parts_->c, c,
                           parts_->c, &parts_->algorithm, workspace, workspace_, stream),
               where, "cublasLtMatmul");
}

}  // namespace mx::cuda::lt
