// SPDX-License-Identifier: Apache-2.0
//
// Positions of extrema.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// The input is (outer, extent, inner); the output has the first position of the largest (or
// smallest) element along the middle axis, in its own type.  NaN counts as both.
PlanPtr make_arg_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t outer,
                      int64_t extent, int64_t inner, bool largest);

}  // namespace mx::cpu
