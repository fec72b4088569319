// SPDX-License-Identifier: Apache-2.0
//
// The bent windows of a deformable convolution as columns, and back.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

struct DeformableOptions {
  int64_t kernel[2], stride[2], pad[2], dilate[2];
  int64_t groups;  // of channels that share offsets
  bool masked;     // there is a mask; elements up to one pixel outside fade out
};

// data (N, C, H, W), offset (N, 2 * groups * kernel elements, H', W')[, mask (N, groups * kernel
// elements, H', W')] -> columns (C * kernel elements, N * H' * W').
PlanPtr make_deformable_columns_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                     const DeformableOptions& options);

// column gradients, data, offset[, mask] -> gradients of data, offset[, mask].
PlanPtr make_deformable_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                      const DeformableOptions& options);

}  // namespace mx::cpu
