// SPDX-License-Identifier: Apache-2.0
//
// How well patches of one feature map fit displaced patches of another.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

struct CorrelationOptions {
  int64_t kernel, displacement, stride, step, pad;  // `step` between displacements
  bool multiply;                                    // products; else absolute differences
};

// data1, data2 (N, C, H, W) -> (N, displacements, H', W').
PlanPtr make_correlation_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const CorrelationOptions& options);
// out-gradient, data1, data2 -> their gradients.
PlanPtr make_correlation_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                       const CorrelationOptions& options);

}  // namespace mx::cpu
