// SPDX-License-Identifier: Apache-2.0
#include "loops.h"

#include <algorithm>

#include "clones.h"

namespace mx::onednn {
namespace {

constexpr int64_t kRun = 4096;    // floats summed in float lanes before they enter a double
constexpr int64_t kRowRun = 128;  // rows, likewise

MX_CLONES void run_scaled_gradient(const float* g, const float* x, const float* gamma, float mean, float scale,
                                   int64_t n, float* gamma_grad, float* beta_grad, float* total, float* moment) {
  float t = 0, m = 0;
#pragma omp simd reduction(+ : t, m)
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = g[i] * gamma[i], centred = x[i] - mean;
    gamma_grad[i] += g[i] * centred * scale;
    beta_grad[i] += g[i];
    t += scaled;
    m += scaled * centred;
  }
  *total = t;
  *moment = m;
}

MX_CLONES void rows_sum(const float* x, int64_t rows, int64_t stride, int64_t width, float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) sums[c] += x[r * stride + c];
  }
}

MX_CLONES void rows_squares(const float* x, const float* mean, int64_t rows, int64_t stride, int64_t width,
                            float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      const float d = x[r * stride + c] - mean[c];
      sums[c] += d * d;
    }
  }
}

MX_CLONES void rows_gradient(const float* g, const float* x, const float* mean, int64_t rows, int64_t stride,
                             int64_t width, float* totals, float* moments) {
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      const float d = g[r * stride + c];
      totals[c] += d;
      moments[c] += d * (x[r * stride + c] - mean[c]);
    }
  }
}

}  // namespace

// Calls body(begin, length) over all runs, in pieces short enough to be summed in float.
template <class Body>
MX_INLINE void for_pieces(Runs runs, const Body& body) {
  for (int64_t r = 0; r < runs.count; ++r) {
    for (int64_t i = 0; i < runs.n; i += kRun) body(r * runs.step + i, std::min(kRun, runs.n - i));
  }
}

MX_CLONES double sum(const float* x, Runs runs) {
  double total = 0;
  for_pieces(runs, [&](int64_t begin, int64_t n) MX_INLINE_LAMBDA {
    float piece = 0;
#pragma omp simd reduction(+ : piece)
    for (int64_t i = 0; i < n; ++i) piece += x[begin + i];
    total += piece;
  });
  return total;
}

MX_CLONES double squared_deviations(const float* x, float mean, Runs runs) {
  double total = 0;
  for_pieces(runs, [&](int64_t begin, int64_t n) MX_INLINE_LAMBDA {
    float piece = 0;
#pragma omp simd reduction(+ : piece)
    for (int64_t i = 0; i < n; ++i) piece += (x[begin + i] - mean) * (x[begin + i] - mean);
    total += piece;
  });
  return total;
}

MX_CLONES void gradient_sums(const float* g, const float* x, float mean, Runs runs, double* total, double* moment) {
  double totals = 0, moments = 0;
  for_pieces(runs, [&](int64_t begin, int64_t n) MX_INLINE_LAMBDA {
    float t = 0, m = 0;
#pragma omp simd reduction(+ : t, m)
    for (int64_t i = 0; i < n; ++i) {
      t += g[begin + i];
      m += g[begin + i] * (x[begin + i] - mean);
    }
    totals += t;
    moments += m;
  });
  *total = totals;
  *moment = moments;
}

MX_CLONES void normalize(const float* x, float mean, float scale, float shift, float* y, Runs runs, bool add) {
  for (int64_t r = 0; r < runs.count; ++r, x += runs.step, y += runs.step) {
    if (add) {
#pragma omp simd
      for (int64_t i = 0; i < runs.n; ++i) y[i] += (x[i] - mean) * scale + shift;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < runs.n; ++i) y[i] = (x[i] - mean) * scale + shift;
    }
  }
}

MX_CLONES void combine(const float* g, const float* x, float mean, float a, float b, float c, float* y, Runs runs,
                       bool add) {
  for (int64_t r = 0; r < runs.count; ++r, g += runs.step, x += runs.step, y += runs.step) {
    if (add) {
#pragma omp simd
      for (int64_t i = 0; i < runs.n; ++i) y[i] += a * g[i] + (b * (x[i] - mean) + c);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < runs.n; ++i) y[i] = a * g[i] + (b * (x[i] - mean) + c);
    }
  }
}

MX_CLONES void normalize_each(const float* x, const float* mean, const float* scale, const float* shift, float* y,
                              int64_t n, bool add) {
  if (add) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += (x[i] - mean[i]) * scale[i] + shift[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
  }
}

MX_CLONES void combine_each(const float* g, const float* x, const float* mean, const float* a, const float* b,
                            const float* c, float* y, int64_t n, bool add) {
  if (add) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += a[i] * g[i] + (b[i] * (x[i] - mean[i]) + c[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] * g[i] + (b[i] * (x[i] - mean[i]) + c[i]);
  }
}

MX_CLONES void normalize_scaled(const float* x, float mean, float scale, const float* gamma, const float* beta,
                                float* y, int64_t n, bool add) {
  if (add) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += (x[i] - mean) * scale * gamma[i] + beta[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
  }
}

void scaled_gradient_sums(const float* g, const float* x, const float* gamma, float mean, float scale, int64_t n,
                          float* gamma_grad, float* beta_grad, double* total, double* moment) {
  *total = *moment = 0;
  for (int64_t i = 0; i < n; i += kRun) {
    float t, m;
    run_scaled_gradient(g + i, x + i, gamma + i, mean, scale, std::min(kRun, n - i), gamma_grad + i, beta_grad + i,
                        &t, &m);
    *total += t;
    *moment += m;
  }
}

MX_CLONES void combine_scaled(const float* g, const float* x, const float* gamma, float mean, float a, float b,
                              float c, float* y, int64_t n, bool add) {
  if (add) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += a * gamma[i] * g[i] + (b * (x[i] - mean) + c);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = a * gamma[i] * g[i] + (b * (x[i] - mean) + c);
  }
}

void column_sums(const float* x, int64_t rows, int64_t stride, int64_t width, double* sums) {
  std::fill_n(sums, width, 0.0);
  for (int64_t r = 0; r < rows; r += kRowRun) {
    float partial[kColumns] = {};
    rows_sum(x + r * stride, std::min(kRowRun, rows - r), stride, width, partial);
    for (int64_t c = 0; c < width; ++c) sums[c] += partial[c];
  }
}

void column_squared_deviations(const float* x, const float* mean, int64_t rows, int64_t stride, int64_t width,
                               double* sums) {
  std::fill_n(sums, width, 0.0);
  for (int64_t r = 0; r < rows; r += kRowRun) {
    float partial[kColumns] = {};
    rows_squares(x + r * stride, mean, std::min(kRowRun, rows - r), stride, width, partial);
    for (int64_t c = 0; c < width; ++c) sums[c] += partial[c];
  }
}

void column_gradient_sums(const float* g, const float* x, const float* mean, int64_t rows, int64_t stride,
                          int64_t width, double* totals, double* moments) {
  std::fill_n(totals, width, 0.0);
  std::fill_n(moments, width, 0.0);
  for (int64_t r = 0; r < rows; r += kRowRun) {
    float total[kColumns] = {}, moment[kColumns] = {};
    rows_gradient(g + r * stride, x + r * stride, mean, std::min(kRowRun, rows - r), stride, width, total, moment);
    for (int64_t c = 0; c < width; ++c) {
      totals[c] += total[c];
      moments[c] += moment[c];
    }
  }
}

}  // namespace mx::onednn
