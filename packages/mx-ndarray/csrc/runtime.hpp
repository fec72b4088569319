// SPDX-License-Identifier: Apache-2.0
//
// The services this package runs on.  The bindings install a loader; each table
// is asked for once, at first use, and kept for the life of the process.
#pragma once

#include <atomic>

#include "mx_core/device.h"
#include "mx_core/engine.h"
#include "mx_core/failure.hpp"
#include "mx_core/storage.h"

namespace mx::nd {

// Where tables come from.  Implementations throw; they may be called on any thread.
class ServiceLoader {
 public:
  virtual ~ServiceLoader() = default;
  virtual const mx_engine_api* engine() = 0;
  virtual const mx_storage_api* storage(int32_t device_type) = 0;
  virtual const mx_resource_api* random(int32_t device_type) = 0;
  virtual const mx_device_api* device(int32_t device_type) = 0;
};

class Runtime {
 public:
  static Runtime& instance() noexcept;
  void set_loader(ServiceLoader* loader) noexcept { loader_ = loader; }

  const mx_engine_api* engine() {
    const mx_engine_api* table = engine_.load(std::memory_order_acquire);
    return table != nullptr ? table : load_engine();
  }
  const mx_storage_api* storage(int32_t device_type) {
    return get(storage_, device_type, &ServiceLoader::storage);
  }
  const mx_resource_api* random(int32_t device_type) {
    return get(random_, device_type, &ServiceLoader::random);
  }
  // Only for contexts that are not the host.
  const mx_device_api* device(int32_t device_type) {
    return get(device_, device_type, &ServiceLoader::device);
  }
  // 1 when a push runs the operation before it returns.
  bool naive() noexcept { return naive_; }

 private:
  static constexpr int32_t kTypes = 256;
  template <class T>
  const T* get(std::atomic<const T*> (&tables)[kTypes], int32_t type,
               const T* (ServiceLoader::*load)(int32_t)) {
    if (type < 0 || type >= kTypes) {
      throw Error(MX_ERROR_VALUE, "[Context] device type " + std::to_string(type) +
                                      " is outside 0 to " + std::to_string(kTypes - 1));
    }
    const T* table = tables[type].load(std::memory_order_acquire);
    if (table == nullptr) {
      table = (loader_->*load)(type);
      tables[type].store(table, std::memory_order_release);
    }
    return table;
  }
  const mx_engine_api* load_engine();

  ServiceLoader* loader_ = nullptr;
  std::atomic<const mx_engine_api*> engine_{nullptr};
  bool naive_ = false;
  std::atomic<const mx_storage_api*> storage_[kTypes] = {};
  std::atomic<const mx_resource_api*> random_[kTypes] = {};
  std::atomic<const mx_device_api*> device_[kTypes] = {};
};

// True for memory the host can read and write.
inline bool on_host(mx_context context) noexcept {
  return context.type == MX_CPU || context.type == MX_CPU_PINNED || context.type == MX_CPU_SHARED;
}

}  // namespace mx::nd
