// SPDX-License-Identifier: Apache-2.0
//
// The accelerator of device.hpp for Python: tables for a plug-in, and levers for its tests.
#include "device.hpp"

namespace {

fakes::Device& device() {
  static auto* device = new fakes::Device(MX_FIRST_PLUGIN_DEVICE + 7);
  return *device;
}
fakes::DeviceStorage& storage() {
  static auto* storage = new fakes::DeviceStorage;
  return *storage;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void* device_table() { return &device().api; }
__attribute__((visibility("default"))) void* storage_table() { return &storage().api; }
__attribute__((visibility("default"))) void* launched_plan(void* host) {
  return fakes::LaunchedPlan::wrap(static_cast<mx_plan*>(host));
}
__attribute__((visibility("default"))) int64_t bytes_in_use() { return storage().bytes; }
__attribute__((visibility("default"))) void set_limit(int64_t bytes) { storage().limit = bytes; }
__attribute__((visibility("default"))) void set_delay(int64_t nanoseconds) {
  fakes::Stream::delay() = nanoseconds;
}
}
