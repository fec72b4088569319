// SPDX-License-Identifier: Apache-2.0
//
// Which values of a schedule share a block of memory: an output takes over the block of an input that dies there, where
// the operator allows it.  mx_symbol/memory/placement.py says what becomes of the blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "placement.hpp"

namespace mx::symbol {

// Offsets are multiples of this many bytes.
constexpr uint64_t kAlignment = 64;

// A node of a schedule, in terms of value numbers.
struct PlanStep {
  std::vector<uint32_t> reads, writes;
  // (position in `reads`, position in `writes`) that may share memory, sorted; steps that are alike share them.
  const std::vector<std::pair<uint32_t, uint32_t>>* inplace = nullptr;
};

struct Value {
  uint64_t bytes = 0;
  bool external = false;  // has memory of its own
  int64_t hosts_from = -1;  // of an external one: the step from which on others may lie there; -1: never
};

// The step that writes a value, and the last one that reads it; -1: none.
struct Lifetime {
  int64_t birth = -1, last_read = -1;
};

// Values that share memory one after the other.
struct SharedBlock {
  std::vector<uint32_t> values;
  Block block;
  int64_t host = -1;  // the external value in whose memory they lie; -1: the arena
};

struct SharedBlocks {
  std::vector<SharedBlock> blocks;  // by birth
  std::vector<Lifetime> lifetimes;  // per value
  // The largest sum of sizes in the arena that are alive at one step.
  uint64_t live = 0;
};

// Whether a value's other users have run when a step takes over its memory, in every order that counts.
using MayTakeOver = std::function<bool(uint32_t value, uint32_t time)>;

// Throws std::out_of_range for a value or a position that there is not.
SharedBlocks share_blocks(const std::vector<PlanStep>& steps, const std::vector<Value>& values,
                          const MayTakeOver& may_take_over = nullptr);

}  // namespace mx::symbol
