// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan.h"

namespace mx::onednn {

// data -> output over rows of `length` contiguous elements.
PlanPtr softmax_rows(const Signature& signature, int64_t length, bool logarithm, double temperature);
// out_grad, output -> data_grad
PlanPtr softmax_rows_backward(const Signature& signature, int64_t length, bool logarithm, double temperature);

}  // namespace mx::onednn
