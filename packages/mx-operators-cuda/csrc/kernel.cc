// SPDX-License-Identifier: Apache-2.0
#include "kernel.hpp"

namespace mx::cuda {
namespace {

constexpr uint32_t kPlainShared = 48 << 10;  // bytes that every kernel may use
constexpr int kMaxDynamicSharedSize = 8;     // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

}  // namespace

Function Kernel::on(const Gpu& gpu) {
  std::atomic<Function>& slot = functions_[gpu.id()];
  if (Function found = slot.load(std::memory_order_acquire)) return found;
  const std::lock_guard<std::mutex> lock(mutex_);
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

void Kernel::allow_shared(const Gpu& gpu, uint32_t bytes) {
  const Function function = on(gpu);
  const std::lock_guard<std::mutex> lock(mutex_);
  uint32_t& allowed = shared_[gpu.id()];
  if (bytes <= kPlainShared || bytes <= allowed) return;
  const Current current(gpu);
  check(gpu.cuda().function_set(function, kMaxDynamicSharedSize, static_cast<int>(bytes)),
        name_ + "] [" + gpu.name(), "cuFuncSetAttribute");
  allowed = bytes;
}

}  // namespace mx::cuda
