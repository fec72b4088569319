// SPDX-License-Identifier: Apache-2.0
#include "norm/channel_rows.hpp"

#include <algorithm>
#include <cstring>

#include "common/clones.hpp"
#include "common/elements.hpp"
#include "common/math32.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kRun = 128;    // rows summed in floats before they enter a double
constexpr int64_t kBlock = 64;   // channels whose sums stay in the first cache

// Calls body(first row, rows, first channel, channels) piece by piece, in the order of memory.
template <class Body>
MX_INLINE void for_pieces(int64_t rows, int64_t channels, const Body& body) {
  for (int64_t r = 0; r < rows; r += kRun)
    for (int64_t c = 0; c < channels; c += kBlock) body(r, std::min(kRun, rows - r), c, std::min(kBlock, channels - c));
}

template <class T>
MX_INLINE void moments_of(const T* x, int64_t rows, int64_t channels, double* mean, double* squares) {
  std::fill_n(mean, channels, 0.0);
  std::fill_n(squares, channels, 0.0);
  for_pieces(rows, channels, [&](int64_t first, int64_t n, int64_t from, int64_t width) MX_INLINE_LAMBDA {
    const T* piece = x + first * channels + from;
    float sum[kBlock] = {}, square[kBlock] = {}, middle[kBlock];
    for (int64_t r = 0; r < n; ++r) {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) sum[c] += get(piece + r * channels, c);
    }
    for (int64_t c = 0; c < width; ++c) middle[c] = sum[c] / static_cast<float>(n);
    for (int64_t r = 0; r < n; ++r) {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) {
        const float d = get(piece + r * channels, c) - middle[c];
        square[c] += d * d;
      }
    }
    for (int64_t c = 0; c < width; ++c)
      join_moments(static_cast<double>(first), static_cast<double>(n), middle[c], square[c], mean + from + c,
                   squares + from + c);
  });
}

template <class T>
MX_INLINE void gradient_sums_of(const T* g, const T* x, const float* mean, int64_t rows, int64_t channels,
                                double* totals, double* moments) {
  std::fill_n(totals, channels, 0.0);
  std::fill_n(moments, channels, 0.0);
  for_pieces(rows, channels, [&](int64_t first, int64_t n, int64_t from, int64_t width) MX_INLINE_LAMBDA {
    const int64_t at = first * channels + from;
    float total[kBlock] = {}, moment[kBlock] = {};
    for (int64_t r = 0; r < n; ++r) {
      const T *gr = g + at + r * channels, *xr = x + at + r * channels;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) {
        total[c] += get(gr, c);
        moment[c] += get(gr, c) * (get(xr, c) - mean[from + c]);
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      totals[from + c] += total[c];
      moments[from + c] += moment[c];
    }
  });
}

// y[c] = term(row's first element, c) row by row, or y[c] += that.
template <class T, class Term>
MX_INLINE void write_rows(T* y, int64_t rows, int64_t channels, bool add, const Term& term) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * channels;
    if (add) {
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) put(y + at, c, get(y + at, c) + term(at, c));
    } else {
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) put(y + at, c, term(at, c));
    }
  }
}

template <class T>
MX_INLINE void normalize_all(const T* x, const float* mean, const float* scale, const float* shift, T* y, int64_t rows,
                             int64_t channels, bool add) {
  write_rows(y, rows, channels, add, [&](int64_t at, int64_t c) MX_INLINE_LAMBDA {
    return (get(x + at, c) - mean[c]) * scale[c] + shift[c];
  });
}

template <class T>
MX_INLINE void combine_all(const T* g, const T* x, const float* mean, const float* a, const float* b, const float* c,
                           T* y, int64_t rows, int64_t channels, bool add) {
  write_rows(y, rows, channels, add, [&](int64_t at, int64_t k) MX_INLINE_LAMBDA {
    return a[k] * get(g + at, k) + (b[k] * (get(x + at, k) - mean[k]) + c[k]);
  });
}

}  // namespace

template <class T>
void row_moments(const T* x, int64_t rows, int64_t channels, double* mean, double* squares) {
  best_clone<moments_of<T>>(x, rows, channels, mean, squares);
}

template <class T>
void row_gradient_sums(const T* g, const T* x, const float* mean, int64_t rows, int64_t channels, double* totals,
                       double* moments) {
  best_clone<gradient_sums_of<T>>(g, x, mean, rows, channels, totals, moments);
}

template <class T>
void normalize_rows(const T* x, const float* mean, const float* scale, const float* shift, T* y, int64_t rows,
                    int64_t channels, bool add) {
  best_clone<normalize_all<T>>(x, mean, scale, shift, y, rows, channels, add);
}

template <class T>
void combine_rows(const T* g, const T* x, const float* mean, const float* a, const float* b, const float* c, T* y,
                  int64_t rows, int64_t channels, bool add) {
  best_clone<combine_all<T>>(g, x, mean, a, b, c, y, rows, channels, add);
}

#define MX_ROWS_OF(T)                                                                                                 \
  template void row_moments(const T*, int64_t, int64_t, double*, double*);                                            \
  template void row_gradient_sums(const T*, const T*, const float*, int64_t, int64_t, double*, double*);              \
  template void normalize_rows(const T*, const float*, const float*, const float*, T*, int64_t, int64_t, bool);       \
  template void combine_rows(const T*, const T*, const float*, const float*, const float*, const float*, T*, int64_t, \
                             int64_t, bool);
MX_ROWS_OF(float)
MX_ROWS_OF(BFloat16)
#undef MX_ROWS_OF

}  // namespace mx::cpu
