// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "common/clones.hpp"
#include "common/plan.hpp"

namespace mx::cpu {

// ---- what is done to a row of n elements ----

float largest(const float* x, int64_t n);
// y = exp((x - top) * factor), and its sum.
float powers(const float* x, float top, float factor, float* y, int64_t n);
// The sum alone.
float power_sum(const float* x, float top, float factor, int64_t n);
void scale(float* y, float factor, int64_t n);

double largest(const double* x, int64_t n);
double powers(const double* x, double top, double factor, double* y, int64_t n);
void scale(double* y, double factor, int64_t n);

constexpr int64_t kRun = 2048;  // floats summed in float lanes before they enter a double

// The sum of part(begin, length) over a row.
template <class Part>
MX_INLINE double in_runs(int64_t n, const Part& part) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kRun) sum += part(i, std::min(kRun, n - i));
  return sum;
}

// ---- plans ----

// data -> output over rows of `length` contiguous elements.
PlanPtr softmax_rows(const Signature& signature, int64_t length, bool logarithm, double temperature);
// out_grad, output -> data_grad
PlanPtr softmax_rows_backward(const Signature& signature, int64_t length, bool logarithm, double temperature);

}  // namespace mx::cpu
