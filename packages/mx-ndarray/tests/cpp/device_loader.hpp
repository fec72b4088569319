// SPDX-License-Identifier: Apache-2.0
//
// The host's services and two kinds of accelerators, each with its own memory.
#pragma once

#include "device.hpp"
#include "fakes.hpp"

namespace fakes {

constexpr int32_t kType = MX_FIRST_PLUGIN_DEVICE;
constexpr int32_t kOtherType = kType + 1;

struct DeviceLoader final : mx::nd::ServiceLoader {
  DeviceLoader() {
    mx::nd::Runtime::instance().set_loader(this);
    host.engine_.stream = [this](mx_context context) -> void* {
      if (mx_on_host(context)) return nullptr;
      const mx_device_api* api = device(context.type);
      void* stream = nullptr;
      mx_error error{};
      mx::check(api->stream(api->self, context.id, 0, &stream, &error), error);
      return stream;
    };
    host.engine_.settle = [](void* stream) {
      auto* on = static_cast<Stream*>(stream);
      mx_error ignored{};
      on->wait(0, on->record().second, &ignored);
    };
  }
  const mx_engine_api* engine() override { return &host.engine_.api; }
  const mx_storage_api* storage(int32_t type) override {
    if (type == kType) return &memory.api;
    return type == kOtherType ? &other_memory.api : &host.storage_.api;
  }
  const mx_resource_api* random(int32_t) override { return &host.random_.api; }
  const mx_device_api* device(int32_t type) override {
    if (type == kType) return &table.api;
    if (type == kOtherType) return &other_table.api;
    throw mx::Error(MX_ERROR, "no device");
  }
  std::string device_name(int32_t type) override { return "type" + std::to_string(type); }
  DeviceStorage memory, other_memory;
  Device table{kType}, other_table{kOtherType};
  Loader host;  // last: its engine's worker uses the others
};

}  // namespace fakes
