// SPDX-License-Identifier: Apache-2.0
//
// Images mixed along rows and columns: interpolation, adaptive pooling, and their gradients.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// A sparse matrix: row i has the entries [begins[i], begins[i + 1]) of columns and weights.
struct Mixing {
  Shape begins, columns;
  std::vector<double> weights;
  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
};

// Output (planes, H', W') = R * input (planes, height, width) * C^T; R is (H', height), C (W', width).
PlanPtr make_resample_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t height, int64_t width,
                           Mixing rows, Mixing columns);

}  // namespace mx::cpu
