// SPDX-License-Identifier: Apache-2.0
//
// Matrix products: FullyConnected, dot, batch_dot, gemm, and their gradients.
// They throw Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// data, weight[, bias] -> output; data is seen as (rows, columns of weight)
PlanPtr fully_connected(const Signature& signature);
// out_grad, data, weight -> data_grad, weight_grad[, bias_grad]
PlanPtr fully_connected_backward(const Signature& signature);

// Batches of matrices: (m, k) x (k, n), each operand row-major or transposed in memory.
struct MatmulOptions {
  int64_t batch = 1, m = 1, k = 1, n = 1;
  bool transpose_a = false, transpose_b = false;
  bool scaled = false;  // times the run-time scalar alpha; a third input is added times beta
};
// a, b[, c] -> output
PlanPtr matmul(const Signature& signature, const MatmulOptions& options);
// out_grad, a, b -> a_grad, b_grad
PlanPtr dot_backward(const Signature& signature, const MatmulOptions& options);

}  // namespace mx::cpu
