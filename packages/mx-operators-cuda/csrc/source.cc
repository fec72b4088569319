// SPDX-License-Identifier: Apache-2.0
#include "gpu.hpp"
#include "mx_core/failure.hpp"
#include "pool.hpp"

namespace mx::cuda {
namespace {

class DeviceMemory final : public Source {
 public:
  DeviceMemory(int32_t id, int reserve) : gpu_(Gpu::at(id)), reserve_(reserve) {}
  void* take(size_t bytes) override {
    const Current current(gpu_);
    Address data = 0;
    const Result result = gpu_.cuda().alloc(&data, bytes);
    if (result == kOutOfMemory) return nullptr;
    check(result, gpu_.name(), "cuMemAlloc");
    return reinterpret_cast<void*>(static_cast<uintptr_t>(data));
  }
  bool reaches_reserve(size_t bytes) const override {
    if (reserve_ == 0) return false;
    size_t free_bytes = 0, total = 0;
    gpu_.memory(&free_bytes, &total);
    const size_t reserved = total / 100 * static_cast<size_t>(reserve_);
    return free_bytes < bytes || free_bytes - bytes < reserved;
  }
  void give(void* data) noexcept override {
    // after a lost context there is nothing to give back to, and nobody to tell
    guarded(nullptr, [&] {
      const Current current(gpu_);
      gpu_.cuda().free(reinterpret_cast<uintptr_t>(data));
    });
  }

 private:
  const Gpu& gpu_;
  const int reserve_;
};

// Portable: page-locked for every GPU; allocated through the first.
class PinnedMemory final : public Source {
 public:
  void* take(size_t bytes) override {
    const Current current(gpu_);
    void* data = nullptr;
    const Result result = gpu_.cuda().host_alloc(&data, bytes, kHostAllocPortable);
    if (result == kOutOfMemory) return nullptr;
    check(result, "cpu_pinned", "cuMemHostAlloc");
    return data;
  }
  void give(void* data) noexcept override {
    guarded(nullptr, [&] {
      const Current current(gpu_);
      gpu_.cuda().host_free(data);
    });
  }

 private:
  const Gpu& gpu_ = Gpu::at(0);
};

}  // namespace

std::unique_ptr<Source> device_memory(int32_t gpu, int reserve) {
  return std::make_unique<DeviceMemory>(gpu, reserve);
}
std::unique_ptr<Source> pinned_memory() { return std::make_unique<PinnedMemory>(); }

}  // namespace mx::cuda
