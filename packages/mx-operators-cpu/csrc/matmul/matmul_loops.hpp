// SPDX-License-Identifier: Apache-2.0
//
// Matrix products by our own loops: those in float64, which oneDNN has none of, and of float32 what it declines.
#pragma once

#include "common/plan.hpp"
#include "matmul/matmul.hpp"

namespace mx::cpu {

// Per matrix of the batch op(A) (m, k) times op(B) (k, n) -> (m, n), in float32 or float64; `scaled` as for matmul.
PlanPtr make_product_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const MatmulOptions& options);

// The like of matmul.hpp, in float64.
PlanPtr double_matmul(const Signature& signature, const MatmulOptions& options);
PlanPtr double_dot_backward(const Signature& signature, const MatmulOptions& options);
PlanPtr double_fully_connected(const Signature& signature);
PlanPtr double_fully_connected_backward(const Signature& signature);

}  // namespace mx::cpu
