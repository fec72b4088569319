// SPDX-License-Identifier: Apache-2.0
//
// The driver library: found at run time, initialised once, never unloaded.  The one place that knows
// where libcuda is, and that a forked child cannot use it.
#pragma once

#include <string>

#include "cuda.hpp"
#include "mx_core/abi.h"

namespace mx::cuda {

// What the driver says of this machine.  Immutable.
struct Driver {
  Functions cuda;
  int version = 0;      // 13000 is CUDA 13.0; 0 without a driver
  int count = 0;        // GPUs offered to this process
  std::string problem;  // why there is no GPU; empty when there is one
};

// Loads and initialises at the first call.  MX_CUDA_DRIVER names the library, by default libcuda.so.1.
// Threads: any.
const Driver& driver();

// True in a child process whose parent had initialised CUDA: nothing of it works there.
bool forked() noexcept;
// The same as an exception: throws mx::Error in such a child, or when there is no GPU.
const Functions& functions();

// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
std::string describe(const Functions& cuda, Result result);
// Throws mx::Error "[where] what: ..." unless the result is success.
void check(Result result, const std::string& where, const char* what);

// "gpu(0)".
std::string name_of(mx_context context);

}  // namespace mx::cuda
