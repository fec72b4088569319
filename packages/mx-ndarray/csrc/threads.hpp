// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mx::nd {

// How many threads one parallel kernel may use: MXNET_OMP_MAX_THREADS, else OMP_NUM_THREADS, else
// the cores this process may run on.  One parallel kernel runs at a time per CPU device.
uint32_t parallel_threads() noexcept;

}  // namespace mx::nd
