// SPDX-License-Identifier: Apache-2.0
//
// The windows of a convolution as columns of a matrix, added back to an image.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// One spatial axis.
struct ColumnAxis {
  int64_t image, kernel, stride, dilate, pad;
  int64_t windows() const { return (image + 2 * pad - dilate * (kernel - 1) - 1) / stride + 1; }
};

// columns (N, C * kernel elements, windows) -> image (N, C, spatial axes): what overlaps is added.
// Further inputs are not read.
PlanPtr make_columns_to_image_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<ColumnAxis> axes);

}  // namespace mx::cpu
