// SPDX-License-Identifier: Apache-2.0
//
// An expression that is its input.
#pragma once

#include <vector>

#include "common/plan.hpp"

namespace mx::cpu {

struct Source;

// Copies bytes; nullptr where the expression does more, or casts.
PlanPtr make_copy_plan(const Source& source, const std::vector<Spec>& inputs, const std::vector<Spec>& outputs);

}  // namespace mx::cpu
