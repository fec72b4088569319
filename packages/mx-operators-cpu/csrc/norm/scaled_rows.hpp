// SPDX-License-Identifier: Apache-2.0
//
// One run of elements with gamma (and beta) per element, of float and of double, on the calling thread.
#pragma once

#include <cstdint>

namespace mx::cpu {

// y = (x - mean) * scale * gamma + beta, or y += that.
template <class T>
void normalize_scaled(const T* x, T mean, T scale, const T* gamma, const T* beta, T* y, int64_t n, bool add);

// gamma_grad += g * (x - mean) * scale and beta_grad += g per element; the sums of g * gamma and of
// g * gamma * (x - mean).
template <class T>
void scaled_gradient_sums(const T* g, const T* x, const T* gamma, T mean, T scale, int64_t n, T* gamma_grad,
                          T* beta_grad, double* total, double* moment);

// y = a * gamma * g + b * (x - mean) + c, or y += that.
template <class T>
void combine_scaled(const T* g, const T* x, const T* gamma, T mean, T a, T b, T c, T* y, int64_t n, bool add);

}  // namespace mx::cpu
