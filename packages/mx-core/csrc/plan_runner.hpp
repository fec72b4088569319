// SPDX-License-Identifier: Apache-2.0
//
// Runs a plan on host memory, now, on the calling thread: for tests of kernels
// that need neither an engine nor arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guarded_memory.hpp"
#include "mx_core/kernel.h"

namespace mx::core {

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
  std::unique_ptr<GuardedMemory> memory;  // null until the kernel asked for it
};

using DynamicOutputs = std::vector<std::unique_ptr<DynamicOutput>>;

// The arrays of a run.  Borrowed.
struct Tensors {
  std::vector<mx_tensor> inputs, outputs;
};

// What runs of a plan with the same requests get besides arrays: scratch and staging memory, scalars, a stream.
// Threads: one at a time.
class PlanRunner {
 public:
  // Throws mx::Error for a plan that is none.  `plan` must live as long.
  PlanRunner(const mx_plan& plan, std::vector<uint8_t> req, const RunOptions& options);
  PlanRunner(const PlanRunner&) = delete;
  PlanRunner& operator=(const PlanRunner&) = delete;

  // `dynamic[i]` is null where output i has memory of its own.  Throws mx::Error.
  void run(const Tensors& tensors, const DynamicOutputs& dynamic);

  // Scratch and staging memory as it is before the first run: NaN between guards.
  void fill();

  // Where runs since have written outside of their memory, in words; empty: nowhere.
  std::string damage(const DynamicOutputs& dynamic) const;

 private:
  const mx_plan& plan_;
  const std::vector<uint8_t> req_;
  const RunOptions options_;
  std::vector<std::unique_ptr<GuardedMemory>> scratch_;
  std::unique_ptr<GuardedMemory> staging_;
  std::vector<void*> places_;  // of scratch_
  mx_kernel_context context_{};
};

// One run.  Returns PlanRunner::damage.
std::string run_plan(const mx_plan& plan, const Tensors& tensors, const std::vector<uint8_t>& req,
                     const DynamicOutputs& dynamic, const RunOptions& options);

}  // namespace mx::core
