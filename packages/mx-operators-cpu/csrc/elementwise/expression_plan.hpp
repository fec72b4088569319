// SPDX-License-Identifier: Apache-2.0
//
// Runs compiled expressions: a vector interpreter whose registers are tiles in the first-level
// cache, so that each value of a long expression costs no memory traffic.
#pragma once

#include <string_view>

#include "common/plan.hpp"

namespace mx::cpu {

struct ExpressionOptions {
  // Inputs that the expression's further outputs are written to (optimizer states).
  std::vector<uint32_t> mutated;
  // Computes what depends on scalars alone in double: 1 - beta keeps its digits.
  bool wide_scalars = false;
};

// Throws as `compile` does.
PlanPtr make_expression_plan(std::string_view serialized, std::vector<Spec> inputs,
                             std::vector<Spec> outputs, const ExpressionOptions& options);

}  // namespace mx::cpu
