// SPDX-License-Identifier: Apache-2.0
#include "loops.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "clones.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are never passed: every helper is inlined

namespace mx::onednn {
namespace {

constexpr int64_t kRun = 4096;    // floats summed in float lanes before they enter a double
constexpr int64_t kRowRun = 128;  // rows, likewise

constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

MX_INLINE Lanes load(const float* p) {
  Lanes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Neighbours of 16 bits, widened: a pair's first and second, without moving any from lane to lane.
typedef uint32_t Pairs __attribute__((vector_size(kLanes * sizeof(uint32_t))));
struct Widened {
  Lanes first, second;
};

MX_INLINE Widened load(const BFloat16* p) {
  Pairs pairs;
  std::memcpy(&pairs, p, sizeof pairs);
  const Pairs first = pairs << 16, second = pairs & 0xffff0000u;
  Widened w;
  std::memcpy(&w.first, &first, sizeof first);
  std::memcpy(&w.second, &second, sizeof second);
  return w;
}

MX_INLINE float total(const Lanes& v) {
  float t = 0;
  for (int64_t i = 0; i < kLanes; ++i) t += v[i];
  return t;
}

// Sum of term(i) over [0, n), n <= kRun; two chains of additions hide their latency.
template <class Wide, class Narrow>
MX_INLINE float run_sum(int64_t n, const Wide& wide, const Narrow& narrow) {
  Lanes even = {}, odd = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even += wide(i);
    odd += wide(i + kLanes);
  }
  if (i + kLanes <= n) {
    even += wide(i);
    i += kLanes;
  }
  float t = total(even + odd);
  for (; i < n; ++i) t += narrow(i);
  return t;
}

// A line, to where one begins.
MX_INLINE void stream(float* to, const Lanes& v) {
#if defined(__SSE__)
  __m128 part[sizeof v / sizeof(__m128)];
  std::memcpy(part, &v, sizeof v);
  for (size_t k = 0; k < sizeof v / sizeof(__m128); ++k) _mm_stream_ps(to + 4 * k, part[k]);
#else
  std::memcpy(to, &v, sizeof v);
#endif
}

// y[i] = term(i), past the caches where whole lines are written.
template <class Wide, class Narrow>
MX_INLINE void write_past_caches(float* y, int64_t n, const Wide& wide, const Narrow& narrow) {
  int64_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(y + i) % sizeof(Lanes) != 0; ++i) y[i] = narrow(i);
  for (; i + kLanes <= n; i += kLanes) stream(y + i, wide(i));
  for (; i < n; ++i) y[i] = narrow(i);
}

// Calls body(channel, begin, length) over the runs of a block, in pieces of at most kRun floats.
template <class Body>
MX_INLINE void for_runs(const Block& b, const Body& body) {
  for (int64_t r = 0; r < b.rows; ++r) {
    for (int64_t c = 0; c < b.channels; ++c) {
      const int64_t start = r * b.step + c * b.inner;
      for (int64_t i = 0; i < b.inner; i += kRun) body(c, start + i, std::min(kRun, b.inner - i));
    }
  }
}

// Calls body(first row, last row) and then flush(), a few rows at a time.
template <class Body, class Flush>
MX_INLINE void for_rows(const Block& b, const Body& body, const Flush& flush) {
  for (int64_t r = 0; r < b.rows; r += kRowRun) {
    body(r, std::min(r + kRowRun, b.rows));
    flush();
  }
}

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

}  // namespace

MX_CLONES void sums(const float* x, const Block& b, double* result) {
  std::fill_n(result, b.channels, 0.0);
  if (b.inner > 1) {
    for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
      result[c] += run_sum(
          n, [&](int64_t i) MX_INLINE_LAMBDA { return load(x + at + i); },
          [&](int64_t i) MX_INLINE_LAMBDA { return x[at + i]; });
    });
    return;
  }
  float partial[kBlockChannels] = {};
  for_rows(
      b,
      [&](int64_t first, int64_t last) MX_INLINE_LAMBDA {
        for (int64_t r = first; r < last; ++r) {
#pragma omp simd
          for (int64_t c = 0; c < b.channels; ++c) partial[c] += x[r * b.step + c];
        }
      },
      [&]() MX_INLINE_LAMBDA {
        for (int64_t c = 0; c < b.channels; ++c) result[c] += partial[c];
        std::fill_n(partial, b.channels, 0.f);
      });
}

MX_CLONES void squared_deviations(const float* x, const float* mean, const Block& b, double* result) {
  std::fill_n(result, b.channels, 0.0);
  if (b.inner > 1) {
    for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
      const float m = mean[c];
      result[c] += run_sum(
          n,
          [&](int64_t i) MX_INLINE_LAMBDA {
            const Lanes d = load(x + at + i) - m;
            return d * d;
          },
          [&](int64_t i) MX_INLINE_LAMBDA { return (x[at + i] - m) * (x[at + i] - m); });
    });
    return;
  }
  float partial[kBlockChannels] = {};
  for_rows(
      b,
      [&](int64_t first, int64_t last) MX_INLINE_LAMBDA {
        for (int64_t r = first; r < last; ++r) {
#pragma omp simd
          for (int64_t c = 0; c < b.channels; ++c) {
            const float d = x[r * b.step + c] - mean[c];
            partial[c] += d * d;
          }
        }
      },
      [&]() MX_INLINE_LAMBDA {
        for (int64_t c = 0; c < b.channels; ++c) result[c] += partial[c];
        std::fill_n(partial, b.channels, 0.f);
      });
}

MX_CLONES void gradient_sums(const float* g, const float* x, const float* mean, const Block& b, double* totals,
                             double* moments) {
  std::fill_n(totals, b.channels, 0.0);
  std::fill_n(moments, b.channels, 0.0);
  for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
    const float m = mean[c];
    totals[c] += run_sum(
        n, [&](int64_t i) MX_INLINE_LAMBDA { return load(g + at + i); },
        [&](int64_t i) MX_INLINE_LAMBDA { return g[at + i]; });
    moments[c] += run_sum(
        n, [&](int64_t i) MX_INLINE_LAMBDA { return load(g + at + i) * (load(x + at + i) - m); },
        [&](int64_t i) MX_INLINE_LAMBDA { return g[at + i] * (x[at + i] - m); });
  });
}

MX_CLONES void normalize(const float* x, const float* mean, const float* scale, const float* shift, float* y,
                         const Block& b, bool add) {
  if (b.inner > 1) {
    for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
      const float m = mean[c], k = scale[c], s = shift[c];
      if (add) {
#pragma omp simd
        for (int64_t i = at; i < at + n; ++i) y[i] += (x[i] - m) * k + s;
      } else {
#pragma omp simd
        for (int64_t i = at; i < at + n; ++i) y[i] = (x[i] - m) * k + s;
      }
    });
    return;
  }
  for (int64_t r = 0; r < b.rows; ++r, x += b.step, y += b.step) {
    if (add) {
#pragma omp simd
      for (int64_t c = 0; c < b.channels; ++c) y[c] += (x[c] - mean[c]) * scale[c] + shift[c];
    } else {
#pragma omp simd
      for (int64_t c = 0; c < b.channels; ++c) y[c] = (x[c] - mean[c]) * scale[c] + shift[c];
    }
  }
}

MX_CLONES void normalize_past_caches(const float* x, const float* mean, const float* scale, const float* shift,
                                     float* y, const Block& b) {
  constexpr int64_t kAhead = 1024;  // elements: pages end before the processor has recognised the stream
  if (b.inner > 1) {
    for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
      const float m = mean[c], k = scale[c], s = shift[c];
      const float* from = x + at;
      write_past_caches(
          y + at, n,
          [&](int64_t i) MX_INLINE_LAMBDA {
            __builtin_prefetch(from + i + kAhead);
            return (load(from + i) - m) * k + s;
          },
          [&](int64_t i) MX_INLINE_LAMBDA { return (from[i] - m) * k + s; });
    });
    return;
  }
  for (int64_t r = 0; r < b.rows; ++r, x += b.step, y += b.step)
    write_past_caches(
        y, b.channels,
        [&](int64_t i) MX_INLINE_LAMBDA {
          __builtin_prefetch(x + i + kAhead);
          return (load(x + i) - load(mean + i)) * load(scale + i) + load(shift + i);
        },
        [&](int64_t i) MX_INLINE_LAMBDA { return (x[i] - mean[i]) * scale[i] + shift[i]; });
}

MX_CLONES void fill_past_caches(float* y, float value, int64_t n) {
  write_past_caches(
      y, n, [&](int64_t) MX_INLINE_LAMBDA { return Lanes{} + value; }, [&](int64_t) MX_INLINE_LAMBDA { return value; });
}

MX_CLONES void combine(const float* g, const float* x, const float* mean, const float* a, const float* b,
                       const float* c, float* y, const Block& block, bool add) {
  for_runs(block, [&](int64_t k, int64_t at, int64_t n) MX_INLINE_LAMBDA {
    const float m = mean[k], u = a[k], v = b[k], w = c[k];
    if (add) {
#pragma omp simd
      for (int64_t i = at; i < at + n; ++i) y[i] += u * g[i] + (v * (x[i] - m) + w);
    } else {
#pragma omp simd
      for (int64_t i = at; i < at + n; ++i) y[i] = u * g[i] + (v * (x[i] - m) + w);
    }
  });
}

MX_CLONES double dot(const float* a, const float* b, int64_t n) {
  double result = 0;
  for_runs(run_of(n), [&](int64_t, int64_t at, int64_t length) MX_INLINE_LAMBDA {
    result += run_sum(
        length, [&](int64_t i) MX_INLINE_LAMBDA { return load(a + at + i) * load(b + at + i); },
        [&](int64_t i) MX_INLINE_LAMBDA { return a[at + i] * b[at + i]; });
  });
  return result;
}

MX_CLONES double dot(const BFloat16* a, const BFloat16* b, int64_t n) {
  double result = 0;
  for_runs(run_of(n), [&](int64_t, int64_t at, int64_t length) MX_INLINE_LAMBDA {
    Lanes first = {}, second = {};
    int64_t i = at;
    for (; i + 2 * kLanes <= at + length; i += 2 * kLanes) {
      const Widened x = load(a + i), y = load(b + i);
      first += x.first * y.first;
      second += x.second * y.second;
    }
    float sum = total(first + second);
    for (; i < at + length; ++i) sum += float(a[i]) * float(b[i]);
    result += sum;
  });
  return result;
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

}  // namespace mx::onednn
