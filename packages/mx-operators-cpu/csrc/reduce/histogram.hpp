// SPDX-License-Identifier: Apache-2.0
//
// Counts of values in intervals.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// inputs[0] -> int64 counts, edges.  Values below the first edge, above the last one, and NaN are
// not counted; the last interval has its upper end.  Without edges they are inputs[1].
PlanPtr make_histogram_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> edges);

}  // namespace mx::cpu
