// SPDX-License-Identifier: Apache-2.0
//
// Which neighbouring elementwise nodes become one kernel.  Groups grow greedily along data flow: a node joins the
// group of one of its inputs if both are of one kind, one kernel can be all of it, and no path leaves the group and
// comes back.  mx_symbol/passes/elementwise_fusion.py says what a kind is and makes the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mx::symbol {

constexpr int32_t kNoKind = -1;
constexpr uint32_t kVariable = UINT32_MAX;

// An operator application; its number is its place in the schedule.
struct FusionNode {
  std::vector<uint32_t> inputs;   // entries
  std::vector<uint32_t> outputs;  // entries
  int32_t kind = kNoKind;         // nodes of different kinds never share a kernel; kNoKind: stays alone
  uint32_t values = 0;            // what it adds to a kernel: scalars, constants, instructions, outputs
};

struct FusionGraph {
  std::vector<FusionNode> nodes;
  std::vector<uint32_t> makers;  // per entry the node that computes it, or kVariable
  std::vector<bool> heads;       // per entry
};

struct FusionLimits {
  size_t inputs = 0, outputs = 0, values = 0;  // of one kernel
  uint32_t span = 0;    // nodes between the first and the last of a group
  size_t searched = 0;  // nodes looked at when a path back into a group is searched; beyond it the group does not grow
};

// Nodes that become one kernel.
struct FusionGroup {
  struct Place {  // the `index`-th input or output of the `member`-th member
    uint32_t member;
    uint32_t index;
  };
  std::vector<uint32_t> members;  // in the order in which they run
  std::vector<Place> inputs;      // where each entry that is read from outside is read first
  std::vector<Place> outputs;     // what is read of them outside
  // What each input of each member is: the entries read from outside are numbered first, then the members' outputs.
  std::vector<uint32_t> wiring;
};

// Groups of more than one node, none of which waits for itself.
std::vector<FusionGroup> fusion_groups(const FusionGraph& graph, const FusionLimits& limits);

}  // namespace mx::symbol
