// SPDX-License-Identifier: Apache-2.0
//
// What an engine is made with.
#pragma once

#include <string>

#include "pools.hpp"

namespace mx::engine {

struct EngineOptions {
  std::string name = "ThreadedEnginePerDevice";
  bool naive = false;       // runs everything at the push on the pushing thread
  bool per_device = true;   // pools per device, or one for all
  bool debug = false;       // finds undeclared writes and circular waits
  bool sticky = false;      // every wait raises a failure, not the first alone
  PoolLimits limits;
  void (*thread_ends)() = nullptr;  // called on each pool thread before it ends
  // Sleeps for a moment, on a thread that waits for another one's fork.  Whatever the forking
  // thread may need until then, the GIL above all, is given away meanwhile.
  void (*sleep)() noexcept = nullptr;
};

}  // namespace mx::engine
