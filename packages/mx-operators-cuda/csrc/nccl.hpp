// SPDX-License-Identifier: Apache-2.0
//
// Sums over GPUs and copies to them by NCCL, which is found at run time like the driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mx_core/engine.h"
#include "mx_core/invoke.h"

namespace mx::cuda {

// Loads NCCL from a file, once per process.  Throws mx::Error.
void load_nccl(const std::string& path);
// 22809 is 2.28.9.
int nccl_version();

enum class Collective { kReduce, kBroadcast };

// Pushes the sum of `arrays` to `root` (kReduce), or copies of `root` to `arrays` (kBroadcast): one operation of the
// engine.  The arrays lie on different GPUs, one of them on that of `root`; all have one type and number of elements.
// The first use of some GPUs together sets them up, which takes up to seconds.  NCCL adds 16-bit numbers in their type.
// Threads: any, without the GIL.
// Errors: NCCL is not loaded; arrays that do not go together; a type that NCCL has not; the engine has stopped.
void push(const mx_engine_api* engine, const mx_invoke_api* invoke, Collective what,
          const std::vector<mx_array*>& arrays, mx_array* root, int32_t priority);

}  // namespace mx::cuda
