// SPDX-License-Identifier: Apache-2.0
#include "openmp.hpp"

#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

namespace mx::engine {
namespace {

// One may be loaded at any time, so what was not found is looked for again.
void* runtime() noexcept {
  static std::atomic<void*> found{nullptr};
  void* library = found.load(std::memory_order_acquire);
  if (library != nullptr) return library;
  for (const char* name : {"libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so", "libomp.dylib"}) {
    library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    found.store(library, std::memory_order_release);
    return library;
  }
  return nullptr;
}

template <class Function>
Function* function(const char* name) noexcept {
  void* library = runtime();
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

int openmp_threads() noexcept {
  auto* get = function<int()>("omp_get_max_threads");
  return get == nullptr ? 1 : get();
}

void set_openmp_threads(int n) noexcept {
  if (auto* set = function<void(int)>("omp_set_num_threads")) set(n);
}

}  // namespace mx::engine
