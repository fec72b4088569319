// SPDX-License-Identifier: Apache-2.0
//
// What normalisations do to memory whose channels are last: contiguous rows of channels, float32 or BFloat16,
// computed in float32 on the calling thread. Parameters are per channel.
#pragma once

#include <cstdint>

#include "mx_core/half.hpp"

namespace mx::cpu {

// Means and sums of squared deviations of `more` values join those of `seen` (T. Chan, G. Golub, R. LeVeque,
// Algorithms for Computing the Sample Variance, 1983, equation 2.1).
inline void join_moments(double seen, double more, double more_mean, double more_squares, double* mean,
                         double* squares) {
  const double apart = more_mean - *mean, share = more / (seen + more);
  *mean += apart * share;
  *squares += more_squares + apart * apart * (seen * share);
}

// Of float and of BFloat16:

// Means, and sums of squared deviations from them.
template <class T>
void row_moments(const T* x, int64_t rows, int64_t channels, double* mean, double* squares);

// Sums of g, and of g * (x - mean).
template <class T>
void row_gradient_sums(const T* g, const T* x, const float* mean, int64_t rows, int64_t channels, double* totals,
                       double* moments);

// y = (x - mean) * scale + shift, or y += that.
template <class T>
void normalize_rows(const T* x, const float* mean, const float* scale, const float* shift, T* y, int64_t rows,
                    int64_t channels, bool add);

// y = a * g + b * (x - mean) + c, or y += that.
template <class T>
void combine_rows(const T* g, const T* x, const float* mean, const float* a, const float* b, const float* c, T* y,
                  int64_t rows, int64_t channels, bool add);

}  // namespace mx::cpu
