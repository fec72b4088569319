// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mx_core/device.h"

namespace mx::cuda {

// Streams, tokens and copies of all GPUs, as table mx.device.v1; lives as long as the process.
const mx_device_api* device_table() noexcept;

}  // namespace mx::cuda
