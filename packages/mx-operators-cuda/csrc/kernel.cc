// SPDX-License-Identifier: Apache-2.0
#include "kernel.hpp"

namespace mx::cuda {

Function Kernel::on(const Gpu& gpu) {
  std::atomic<Function>& slot = functions_[gpu.id()];
  if (Function found = slot.load(std::memory_order_acquire)) return found;
  const std::lock_guard<std::mutex> lock(loading_);
  if (Function found = slot.load(std::memory_order_acquire)) return found;
  const std::string where = name_ + "] [" + gpu.name();
  const Current current(gpu);
  Module module = nullptr;
  Function function = nullptr;
  check(gpu.cuda().module_load(&module, image_.c_str()), where, "cuModuleLoadData");
  check(gpu.cuda().module_function(&function, module, name_.c_str()), where, "cuModuleGetFunction");
  slot.store(function, std::memory_order_release);
  return function;
}

}  // namespace mx::cuda
