// SPDX-License-Identifier: Apache-2.0
//
// Arrays looked at, or cleared, as a whole.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// -> (1,): 1 if every number of every array is finite, else 0.
PlanPtr make_all_finite_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);

// Sets all its inputs, which it mutates, to 0.
PlanPtr make_reset_plan(std::vector<Spec> inputs);

}  // namespace mx::cpu
