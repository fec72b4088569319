// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softmax/softmax.hpp"

namespace mx::cpu {

// The like of softmax.hpp in float64, which oneDNN has none of.
PlanPtr double_softmax(const Signature& signature, const SoftmaxOptions& options);
PlanPtr double_softmax_backward(const Signature& signature, const SoftmaxOptions& options);

}  // namespace mx::cpu
