// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block.hpp"
#include "poison.hpp"
#include "waiter.hpp"

namespace mx::engine {

// A wait for one variable that has begun; see Waiting::begin_wait.
struct VariableWait {
  mx_variable* variable = nullptr;
  bool granted = false;      // nothing to wait for (any more)
  bool immediate = false;    // there never was
  bool keeps = false;        // what it is granted, until Waiting::give_back; changed with the variable's lock held
  bool ended = false;        // granted after it had to wait
  bool held = false;         // it kept what it was granted
  bool lost = false;         // a child of a fork has it from its parent, and nobody who would grant it
  uint32_t forks = 0;        // Frame::forks() of the process that it began in
  Poison* poison = nullptr;  // the variable's, once granted; a reference
  Entry entry;
  Block block;
  Waiter waiter;
};

}  // namespace mx::engine
