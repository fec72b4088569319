// SPDX-License-Identifier: Apache-2.0
#include "norm/scaled_rows.hpp"

#include <algorithm>

#include "common/clones.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kRun = 4096;  // elements summed in their own type before they enter a double

template <class T, class Term>
MX_INLINE void write(T* y, int64_t n, bool add, const Term& term) {
  if (add) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += term(i);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = term(i);
  }
}

template <class T>
MX_INLINE void normalize_run(const T* x, T mean, T scale, const T* gamma, const T* beta, T* y, int64_t n, bool add) {
  write(y, n, add, [=](int64_t i) MX_INLINE_LAMBDA { return (x[i] - mean) * scale * gamma[i] + beta[i]; });
}

template <class T>
MX_INLINE void gradient_run(const T* g, const T* x, const T* gamma, T mean, T scale, int64_t n, T* gamma_grad,
                            T* beta_grad, double* total, double* moment) {
  T t = 0, m = 0;
#pragma omp simd reduction(+ : t, m)
  for (int64_t i = 0; i < n; ++i) {
    const T scaled = g[i] * gamma[i], centred = x[i] - mean;
    gamma_grad[i] += g[i] * centred * scale;
    beta_grad[i] += g[i];
    t += scaled;
    m += scaled * centred;
  }
  *total += t;
  *moment += m;
}

template <class T>
MX_INLINE void combine_run(const T* g, const T* x, const T* gamma, T mean, T a, T b, T c, T* y, int64_t n, bool add) {
  write(y, n, add, [=](int64_t i) MX_INLINE_LAMBDA { return a * gamma[i] * g[i] + (b * (x[i] - mean) + c); });
}

}  // namespace

template <class T>
void normalize_scaled(const T* x, T mean, T scale, const T* gamma, const T* beta, T* y, int64_t n, bool add) {
  best_clone<normalize_run<T>>(x, mean, scale, gamma, beta, y, n, add);
}

template <class T>
void scaled_gradient_sums(const T* g, const T* x, const T* gamma, T mean, T scale, int64_t n, T* gamma_grad,
                          T* beta_grad, double* total, double* moment) {
  *total = *moment = 0;
  for (int64_t i = 0; i < n; i += kRun)
    best_clone<gradient_run<T>>(g + i, x + i, gamma + i, mean, scale, std::min(kRun, n - i), gamma_grad + i,
                                beta_grad + i, total, moment);
}

template <class T>
void combine_scaled(const T* g, const T* x, const T* gamma, T mean, T a, T b, T c, T* y, int64_t n, bool add) {
  best_clone<combine_run<T>>(g, x, gamma, mean, a, b, c, y, n, add);
}

#define MX_SCALED_ROWS_OF(T)                                                                             \
  template void normalize_scaled(const T*, T, T, const T*, const T*, T*, int64_t, bool);                 \
  template void scaled_gradient_sums(const T*, const T*, const T*, T, T, int64_t, T*, T*, double*, double*); \
  template void combine_scaled(const T*, const T*, const T*, T, T, T, T, T*, int64_t, bool);
MX_SCALED_ROWS_OF(float)
MX_SCALED_ROWS_OF(double)
#undef MX_SCALED_ROWS_OF

}  // namespace mx::cpu
