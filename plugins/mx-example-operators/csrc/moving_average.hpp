// SPDX-License-Identifier: Apache-2.0
//
// Kernels of moving_average and _backward_moving_average for main memory, float32 and float64.
#pragma once

#include "mx_core/kernel.h"

namespace mx_example {

// Both live as long as the process.
const mx_kernel_api* moving_average_kernel();
const mx_kernel_api* backward_moving_average_kernel();

}  // namespace mx_example
