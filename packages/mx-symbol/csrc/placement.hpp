// SPDX-License-Identifier: Apache-2.0
//
// Offsets of blocks of memory that live for some steps of a schedule: blocks whose lives overlap get
// disjoint ranges.  mx_symbol/memory/placement.py says which heuristics these are and where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mx::symbol {

// The steps at which a block is alive, both inclusive, and its bytes.
struct Block {
  int64_t birth = 0;
  int64_t death = 0;
  uint64_t size = 0;
};

struct Offsets {
  std::vector<uint64_t> of;  // per block
  uint64_t total = 0;        // size of the arena
};

// Steps of a schedule, as bits.
using StepSet = std::vector<uint64_t>;

// What every order that data flow allows has in common for a block; both sets have the same size.
struct FlowLife {
  StepSet before;  // the steps that must have run when the block is first written
  StepSet users;   // the steps that touch it
};

struct PlacementLimits {
  size_t greedy_blocks = 0;  // with more blocks only the linear heuristic runs
  uint32_t rounds = 0;       // most placements that are tried when the heuristics leave gaps
};

// Places blocks, which come in the order of their births.  `live` is the largest sum of sizes that are
// alive at one step: no arena can be smaller, and the search ends where it is reached.
Offsets place(const std::vector<Block>& blocks, uint64_t live, const PlacementLimits& limits);

// The same where two blocks share memory only if data flow orders those who touch them.  Throws std::out_of_range
// unless there is a life per block and all sets have one size.
Offsets place_by_flow(const std::vector<Block>& blocks, const std::vector<FlowLife>& lives, uint64_t live,
                      const PlacementLimits& limits);

}  // namespace mx::symbol
