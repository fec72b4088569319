// SPDX-License-Identifier: Apache-2.0
//
// Running sums.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// Along the middle axis of (outer, extent, inner); floating-point numbers are added in double.
struct ScanOptions {
  int64_t outer, extent, inner;
  bool reverse;  // from the end
};

// inputs[0] -> sums in its type; further inputs are not read.  The order of additions does not
// depend on the number of threads.
PlanPtr make_scan_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const ScanOptions& options);

}  // namespace mx::cpu
