// SPDX-License-Identifier: Apache-2.0
//
// Vectorised loops over contiguous floats, compiled for several instruction sets.  They run on the
// calling thread; sums keep float lanes over short runs and doubles across them.
#pragma once

#include <cstdint>

namespace mx::onednn {

// Runs: `count` runs of n floats, `step` apart.
struct Runs {
  int64_t count, step, n;
};

double sum(const float* x, Runs runs);
// Sum of (x - mean)^2.
double squared_deviations(const float* x, float mean, Runs runs);
// *total = sum of g; *moment = sum of g * (x - mean).
void gradient_sums(const float* g, const float* x, float mean, Runs runs, double* total, double* moment);
// y = (x - mean) * scale + shift, or y += that.
void normalize(const float* x, float mean, float scale, float shift, float* y, Runs runs, bool add);
// y = a * g + b * (x - mean) + c, or y += that.
void combine(const float* g, const float* x, float mean, float a, float b, float c, float* y, Runs runs, bool add);

// One run, with a parameter per element.
void normalize_each(const float* x, const float* mean, const float* scale, const float* shift, float* y, int64_t n,
                    bool add);
void combine_each(const float* g, const float* x, const float* mean, const float* a, const float* b, const float* c,
                  float* y, int64_t n, bool add);

// y = (x - mean) * scale * gamma + beta, or y += that.
void normalize_scaled(const float* x, float mean, float scale, const float* gamma, const float* beta, float* y,
                      int64_t n, bool add);
// gamma_grad += g * (x - mean) * scale and beta_grad += g per element; the sums of g * gamma and of
// g * gamma * (x - mean).
void scaled_gradient_sums(const float* g, const float* x, const float* gamma, float mean, float scale, int64_t n,
                          float* gamma_grad, float* beta_grad, double* total, double* moment);
// y = a * gamma * g + b * (x - mean) + c, or y += that.
void combine_scaled(const float* g, const float* x, const float* gamma, float mean, float a, float b, float c,
                    float* y, int64_t n, bool add);

// Columns: `rows` runs of `width` <= kColumns floats, `stride` apart; results per column.
constexpr int64_t kColumns = 64;
void column_sums(const float* x, int64_t rows, int64_t stride, int64_t width, double* sums);
void column_squared_deviations(const float* x, const float* mean, int64_t rows, int64_t stride, int64_t width,
                               double* sums);
void column_gradient_sums(const float* g, const float* x, const float* mean, int64_t rows, int64_t stride,
                          int64_t width, double* totals, double* moments);

}  // namespace mx::onednn
