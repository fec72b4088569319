// SPDX-License-Identifier: Apache-2.0
//
// The services this package runs on.  The bindings install a loader; each table
// is asked for once, at first use, and kept for the life of the process.
#pragma once

#include <atomic>
#include <string>

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
  // "gpu"
  virtual std::string device_name(int32_t device_type) = 0;
};

// True when one kernel can reach the memory of both.
inline bool same_memory(mx_context a, mx_context b) noexcept {
  return (a.type == b.type && a.id == b.id) || (mx_on_host(a) && mx_on_host(b));
}

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
  // Only for contexts that are not the host.  The engine knows the device then.
  const mx_device_api* device(int32_t device_type) {
    return get(device_, device_type, &ServiceLoader::device);
  }
  // Throws unless there is memory of that kind here: the device exists and a storage manager serves it.
  void require(mx_context context) {
    if (context.type != MX_CPU) require_slow(context);
  }
  // "gpu(0)"
  std::string text(mx_context context) {
    return loader_->device_name(context.type) + "(" + std::to_string(context.id) + ")";
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
  void require_slow(mx_context context);

  ServiceLoader* loader_ = nullptr;
  std::atomic<const mx_engine_api*> engine_{nullptr};
  bool naive_ = false;
  std::atomic<const mx_storage_api*> storage_[kTypes] = {};
  std::atomic<const mx_resource_api*> random_[kTypes] = {};
  std::atomic<const mx_device_api*> device_[kTypes] = {};
};

}  // namespace mx::nd
