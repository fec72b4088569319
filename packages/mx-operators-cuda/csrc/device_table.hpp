// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "driver.hpp"
#include "mx_core/device.h"

namespace mx::cuda {

// Streams, tokens and copies of all GPUs, as table mx.device.v1; lives as long as the process.
const mx_device_api* device_table() noexcept;

// Enqueues a copy of which at least one side is memory of a GPU, as the table's `copy`.
void copy(Stream stream, void* to, mx_context to_context, const void* from, mx_context from_context, size_t bytes);

}  // namespace mx::cuda
