// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic progressions.
#pragma once

#include <optional>

#include "common/plan.hpp"

namespace mx::cpu {

struct ProgressionOptions {
  double start, step;
  int64_t repeat;              // how often each number stands
  std::optional<double> last;  // instead of the last number
};

// -> start + (i / repeat) * step, computed in double.
PlanPtr make_progression_plan(std::vector<Spec> outputs, const ProgressionOptions& options);

}  // namespace mx::cpu
