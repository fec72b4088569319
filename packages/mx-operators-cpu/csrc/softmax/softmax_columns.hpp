// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/shape.hpp"
#include "softmax/softmax.hpp"

namespace mx::cpu {

// Whether these loops know a view: float32 along an axis that is short, or that wide rows of columns lie behind.
bool columns_suit(const AxisView& view);
// data -> output
PlanPtr softmax_columns(const Signature& signature, const SoftmaxOptions& options);
// out_grad, output -> data_grad
PlanPtr softmax_columns_backward(const Signature& signature, const SoftmaxOptions& options);

}  // namespace mx::cpu
