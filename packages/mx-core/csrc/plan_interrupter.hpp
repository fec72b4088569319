// SPDX-License-Identifier: Apache-2.0
//
// Stops a run of a plan in the middle, runs the plan on other arrays, and lets the first go on: a plan that writes to
// itself is found on one processor, too, where threads seldom meet.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan_runner.hpp"

namespace mx::core {

struct InterruptOptions {
  uint32_t rounds = 100;                      // interruptions at most
  std::chrono::milliseconds limit{200};       // of all rounds together
  std::chrono::milliseconds patience{5};      // a stopped run goes on then, as it may hold a lock
};

// What a run gave that is not what the same run gave alone, byte for byte.
struct Differing {
  bool interrupted = false;                    // the run that was stopped, else the one in between
  std::vector<std::vector<uint8_t>> tensors;  // contents of inputs and outputs
};

struct Interrupted {
  uint32_t rounds = 0;
  std::vector<Differing> differing;  // the first few
};

// `stopped` and `between` are arrays of two runs; what is written of their inputs is restored before each run.
// Uses SIGURG, whose handler it puts back.  Threads: one call at a time, others wait.  Blocks.
// Throws mx::Error, also what a run throws.
Interrupted interrupt_plan(const mx_plan& plan, const Tensors& stopped, const Tensors& between,
                           const RunOptions& options, const InterruptOptions& interrupts);

}  // namespace mx::core
