// SPDX-License-Identifier: Apache-2.0
//
// Matrix products in float64, which oneDNN has none of.
#pragma once

#include "common/plan.h"

namespace mx::cpu {

struct ProductOptions {
  int64_t batch, m, k, n;
  bool transpose_a, transpose_b;
};

// Per matrix of the batch op(A) (m, k) times op(B) (k, n) -> (m, n).
PlanPtr make_product_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const ProductOptions& options);

}  // namespace mx::cpu
