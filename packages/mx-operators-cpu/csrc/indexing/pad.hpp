// SPDX-License-Identifier: Apache-2.0
//
// Arrays with something put around them.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

enum class PadMode : uint8_t { kConstant, kEdge, kReflect };

// `before` and `behind`: elements put at the ends of each axis.  The constant is run-time scalar 0.
PlanPtr make_pad_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Shape& before, const Shape& behind,
                      PadMode mode);

}  // namespace mx::cpu
