// SPDX-License-Identifier: Apache-2.0
//
// Rows by index: gathering, scattering, adding up.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// kRaise counts negative indices from the end; kInside knows none.
enum class Bounds : uint8_t { kClip, kWrap, kRaise, kInside };
enum class IndexAction : uint8_t { kGather, kAdd, kSet, kAssign };

// The table is (outer, extents..., inner), the indices are (extents.size(), n), and the rows are
// (outer, n, inner).  With `per_element` each index belongs to one element: the table is
// (n / inner, extent, inner) and the rows are (n / inner, inner).
struct IndexOptions {
  std::string op;  // for messages
  IndexAction action;
  Bounds bounds;
  uint32_t values, indices;  // positions among the inputs: table or rows, and indices
  Shape extents;
  int64_t outer, n, inner;
  bool per_element = false;
};

// kGather writes rows; kAdd and kSet write a table of zeros with the rows added or set; kAssign sets
// them in the table that is input 0.
PlanPtr make_index_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                        const IndexOptions& options);

// (n,) indices to (n, depth): scalar 0 at the index, scalar 1 elsewhere.
PlanPtr make_one_hot_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t depth);

}  // namespace mx::cpu
