// SPDX-License-Identifier: Apache-2.0
//
// The loops of channel_loops.hpp in double, which need no second accumulator.
#include <algorithm>

#include "common/clones.hpp"
#include "norm/channel_loops.hpp"

namespace mx::cpu {
namespace {

// result[c] = the sum of term(c, place) over channel c's elements.
template <class Term>
MX_INLINE void sum_terms(const Block& b, double* result, const Term& term) {
  std::fill_n(result, b.channels, 0.0);
  for (int64_t r = 0; r < b.rows; ++r) {
    if (b.inner == 1) {
#pragma omp simd
      for (int64_t c = 0; c < b.channels; ++c) result[c] += term(c, r * b.step + c);
      continue;
    }
    for (int64_t c = 0; c < b.channels; ++c) {
      const int64_t at = r * b.step + c * b.inner;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < b.inner; ++i) sum += term(c, at + i);
      result[c] += sum;
    }
  }
}

// y = term(c, place), or y += that.
template <class Term>
MX_INLINE void write_terms(const Block& b, double* y, bool add, const Term& term) {
  for (int64_t r = 0; r < b.rows; ++r)
    for (int64_t c = 0; c < b.channels; ++c) {
      const int64_t at = r * b.step + c * b.inner;
      if (b.inner == 1) {  // all channels of the row at once
#pragma omp simd
        for (int64_t k = 0; k < b.channels; ++k) y[at + k] = term(k, at + k) + (add ? y[at + k] : 0.0);
        break;
      }
#pragma omp simd
      for (int64_t i = 0; i < b.inner; ++i) y[at + i] = term(c, at + i) + (add ? y[at + i] : 0.0);
    }
}

}  // namespace

MX_CLONES(void, sums, (const double* x, const Block& b, double* result), (x, b, result)) {
  sum_terms(b, result, [=](int64_t, int64_t i) MX_INLINE_LAMBDA { return x[i]; });
}

MX_CLONES(void, squared_deviations, (const double* x, const double* mean, const Block& b, double* result),
          (x, mean, b, result)) {
  sum_terms(b, result, [=](int64_t c, int64_t i) MX_INLINE_LAMBDA { return (x[i] - mean[c]) * (x[i] - mean[c]); });
}

MX_CLONES(void, gradient_sums, (const double* g, const double* x, const double* mean, const Block& b, double* totals,
                                double* moments), (g, x, mean, b, totals, moments)) {
  sum_terms(b, totals, [=](int64_t, int64_t i) MX_INLINE_LAMBDA { return g[i]; });
  sum_terms(b, moments, [=](int64_t c, int64_t i) MX_INLINE_LAMBDA { return g[i] * (x[i] - mean[c]); });
}

MX_CLONES(void, normalize, (const double* x, const double* mean, const double* scale, const double* shift, double* y,
                            const Block& b, bool add), (x, mean, scale, shift, y, b, add)) {
  write_terms(b, y, add,
              [=](int64_t c, int64_t i) MX_INLINE_LAMBDA { return (x[i] - mean[c]) * scale[c] + shift[c]; });
}

MX_CLONES(void, combine, (const double* g, const double* x, const double* mean, const double* a, const double* b,
                          const double* c, double* y, const Block& block, bool add),
          (g, x, mean, a, b, c, y, block, add)) {
  write_terms(block, y, add, [=](int64_t k, int64_t i) MX_INLINE_LAMBDA {
    return a[k] * g[i] + (b[k] * (x[i] - mean[k]) + c[k]);
  });
}

}  // namespace mx::cpu
