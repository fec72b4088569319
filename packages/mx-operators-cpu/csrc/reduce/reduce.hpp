// SPDX-License-Identifier: Apache-2.0
//
// Reductions over any axes.  Sums of float32 run in blocks whose partial sums are added in double;
// the order of additions does not depend on the number of threads.
#pragma once

#include "simd/loops.hpp"
#include "mx_core/expression.h"
#include "common/plan.hpp"

namespace mx::cpu {

struct ReduceOptions {
  ReduceOp op;
  std::vector<bool> reduced;  // per axis of the input
  bool mean = false;          // divide by the number of elements
  bool root = false;          // square root of the result
};

// inputs[0] is reduced; further inputs are not read.  Throws mx::Error for sizes that do not fit.
PlanPtr make_reduce_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                         const ReduceOptions& options);

}  // namespace mx::cpu
