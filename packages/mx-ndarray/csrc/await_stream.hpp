// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime.hpp"

namespace mx::nd {

// Returns when everything that was enqueued on a stream of a device is done.  Blocks; without the GIL.  Throws Error.
inline void await_stream(mx_context context, void* stream) {
  const mx_device_api* device = Runtime::instance().device(context.type);
  mx_error error{};
  mx_token* token = nullptr;
  check(device->record(device->self, stream, &token, &error), error);
  const int32_t status = device->wait(device->self, token, &error);
  device->release(device->self, token);
  check(status, error);
}

}  // namespace mx::nd
