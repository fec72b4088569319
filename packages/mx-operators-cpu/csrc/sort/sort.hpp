// SPDX-License-Identifier: Apache-2.0
//
// Elements by rank: sorting, the first k, where they came from.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

enum class Ranked : uint8_t {
  kValues,     // the elements themselves
  kPositions,  // where they are along the axis
  kMask,       // 1 where they are, else 0
  kScatter     // the first input's elements, written where they came from, else 0
};

// Data is seen as (outer, extent, inner); the first k along the middle axis, in stable order, NaN last.
struct OrderOptions {
  uint32_t data;  // which input is ordered
  int64_t outer, extent, inner, k;
  bool ascending;
  std::vector<Ranked> results;  // what each output is
};

PlanPtr make_order_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const OrderOptions& options);

}  // namespace mx::cpu
