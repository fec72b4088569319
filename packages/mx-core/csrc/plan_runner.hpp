// SPDX-License-Identifier: Apache-2.0
//
// Runs a plan on host memory, now, on the calling thread: for tests of kernels
// that need neither an engine nor arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "mx_core/kernel.h"

namespace mx::core {

struct FreeDeleter {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeDeleter>;

// 64-byte aligned, never null; throws std::bad_alloc.
Memory allocate(size_t bytes);

struct RunOptions {
  bool is_train = false;
  std::vector<double> scalars;
  uint64_t random_key = 0;
  uint64_t random_offset = 0;
  uint32_t threads = 1;
};

// The output of an operator whose shapes depend on values.
struct DynamicOutput {
  int32_t dtype = MX_FLOAT32;
  std::vector<int64_t> shape;
  size_t bytes = 0;
  Memory memory;  // null until the kernel asked for it
};

// `dynamic[i]` is null where output i has memory of its own.  Throws mx::Error.
void run_plan(const mx_plan& plan, const std::vector<mx_tensor>& inputs,
              const std::vector<mx_tensor>& outputs, const std::vector<uint8_t>& req,
              const std::vector<std::unique_ptr<DynamicOutput>>& dynamic, const RunOptions& options);

}  // namespace mx::core
