// SPDX-License-Identifier: Apache-2.0
#include "norm/channel_loops.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/clones.hpp"
#include "common/elements.hpp"
#include "common/lanes.hpp"
#include "common/math32.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kRun = 4096;    // floats summed in float lanes before they enter a double
constexpr int64_t kRowRun = 128;  // rows, likewise

typedef uint16_t Halves __attribute__((vector_size(kLanes * sizeof(uint16_t))));
typedef uint32_t Words __attribute__((vector_size(kLanes * sizeof(uint32_t))));

MX_INLINE Lanes floats_of(const Words& words) {
  Lanes v;
  std::memcpy(&v, &words, sizeof v);
  return v;
}

MX_INLINE Words words_of(const void* p) {
  Words w;
  std::memcpy(&w, p, sizeof w);
  return w;
}

MX_INLINE Lanes load_lanes(const float* p) {
  Lanes v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

MX_INLINE Lanes load_lanes(const BFloat16* p) {
  Halves halves;
  std::memcpy(&halves, p, sizeof halves);
  return floats_of(__builtin_convertvector(halves, Words) << 16);
}

// How a term of a sum or of a result reads its operands: two lines of neighbours from i on, where those of 16 bits
// stay in the words that they share; one line; or one element.
constexpr int64_t kTwoLines = 2 * kLanes;
constexpr uint32_t kUpper = 0xffff0000u;

struct First {
  int64_t i;
  MX_INLINE Lanes operator()(const float* p) const { return load_lanes(p + i); }
  MX_INLINE Lanes operator()(const BFloat16* p) const { return floats_of(words_of(p + i) << 16); }
};
struct Second {
  int64_t i;
  MX_INLINE Lanes operator()(const float* p) const { return load_lanes(p + i + kLanes); }
  MX_INLINE Lanes operator()(const BFloat16* p) const { return floats_of(words_of(p + i) & kUpper); }
};
struct Line {
  int64_t i;
  template <class T>
  MX_INLINE Lanes operator()(const T* p) const {
    return load_lanes(p + i);
  }
};
struct One {
  int64_t i;
  template <class T>
  MX_INLINE float operator()(const T* p) const {
    return get(p, i);
  }
};

// Two lines as First and Second read them.
MX_INLINE void put_two_lines(BFloat16* p, const Lanes& first, const Lanes& second) {
  const auto rounded = [](const Lanes& v) MX_INLINE_LAMBDA {  // in the upper halves, as put does
    const Words bits = words_of(&v);
    return v != v ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
  };
  const Words both = (rounded(first) >> 16) | (rounded(second) & kUpper);
  std::memcpy(p, &both, sizeof both);
}

MX_INLINE float total(const Lanes& v) {
  float t = 0;
  for (int64_t i = 0; i < kLanes; ++i) t += v[i];
  return t;
}

// Sum of the terms of [0, n), n <= kRun; two chains of additions hide their latency.
template <class Term>
MX_INLINE float run_sum(int64_t n, const Term& term) {
  Lanes first = {}, second = {};
  int64_t i = 0;
  for (; i + kTwoLines <= n; i += kTwoLines) {
    first += term(First{i});
    second += term(Second{i});
  }
  if (i + kLanes <= n) {
    first += term(Line{i});
    i += kLanes;
  }
  float t = i > 0 ? total(first + second) : 0.0f;
  for (; i < n; ++i) t += term(One{i});
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

// The same for either type, over runs of elements.

template <class T>
MX_INLINE void run_sums(const T* x, const Block& b, double* result) {
  std::fill_n(result, b.channels, 0.0);
  for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
    result[c] += run_sum(n, [&](const auto& read) MX_INLINE_LAMBDA { return read(x + at); });
  });
}

template <class T>
MX_INLINE void run_squared_deviations(const T* x, const float* mean, const Block& b, double* result) {
  std::fill_n(result, b.channels, 0.0);
  for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
    const float m = mean[c];
    result[c] += run_sum(n, [&](const auto& read) MX_INLINE_LAMBDA {
      const auto d = read(x + at) - m;
      return d * d;
    });
  });
}

template <class T>
MX_INLINE void run_gradient_sums(const T* g, const T* x, const float* mean, const Block& b, double* totals,
                                 double* moments) {
  std::fill_n(totals, b.channels, 0.0);
  std::fill_n(moments, b.channels, 0.0);
  for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
    const float m = mean[c];
    totals[c] += run_sum(n, [&](const auto& read) MX_INLINE_LAMBDA { return read(g + at); });
    moments[c] += run_sum(n, [&](const auto& read) MX_INLINE_LAMBDA { return read(g + at) * (read(x + at) - m); });
  });
}

// y = term, or y += that.
template <class T, class Term>
MX_INLINE void write_run(T* y, int64_t n, bool add, const Term& term) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, BFloat16>) {
    for (; i + kTwoLines <= n; i += kTwoLines) {
      const First first{i};
      const Second second{i};
      if (add)
        put_two_lines(y + i, first(y) + term(first), second(y) + term(second));
      else
        put_two_lines(y + i, term(first), term(second));
    }
  }
  if (add) {
#pragma omp simd
    for (int64_t j = i; j < n; ++j) put(y, j, get(y, j) + term(One{j}));
  } else {
#pragma omp simd
    for (int64_t j = i; j < n; ++j) put(y, j, term(One{j}));
  }
}

template <class T>
MX_INLINE void normalize_runs(const T* x, const float* mean, const float* scale, const float* shift, T* y,
                              const Block& b, bool add) {
  for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
    const float m = mean[c], k = scale[c], s = shift[c];
    const T* from = x + at;
    write_run(y + at, n, add, [=](const auto& read) MX_INLINE_LAMBDA { return (read(from) - m) * k + s; });
  });
}

template <class T>
MX_INLINE void combine_runs(const T* g, const T* x, const float* mean, const float* a, const float* b, const float* c,
                            T* y, const Block& block, bool add) {
  for_runs(block, [&](int64_t k, int64_t at, int64_t n) MX_INLINE_LAMBDA {
    const float m = mean[k], u = a[k], v = b[k], w = c[k];
    const T *by = g + at, *from = x + at;
    write_run(y + at, n, add,
              [=](const auto& read) MX_INLINE_LAMBDA { return u * read(by) + (v * (read(from) - m) + w); });
  });
}

template <class T>
MX_INLINE double dot_of(const T* a, const T* b, int64_t n) {
  double result = 0;
  for_runs(run_of(n), [&](int64_t, int64_t at, int64_t length) MX_INLINE_LAMBDA {
    result += run_sum(length, [&](const auto& read) MX_INLINE_LAMBDA { return read(a + at) * read(b + at); });
  });
  return result;
}

}  // namespace

MX_CLONES(void, sums, (const float* x, const Block& b, double* result), (x, b, result)) {
  if (b.inner > 1) return run_sums(x, b, result);
  std::fill_n(result, b.channels, 0.0);
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

MX_CLONES(void, squared_deviations, (const float* x, const float* mean, const Block& b, double* result),
          (x, mean, b, result)) {
  if (b.inner > 1) return run_squared_deviations(x, mean, b, result);
  std::fill_n(result, b.channels, 0.0);
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

MX_CLONES(void, gradient_sums, (const float* g, const float* x, const float* mean, const Block& b, double* totals,
                                double* moments), (g, x, mean, b, totals, moments)) {
  run_gradient_sums(g, x, mean, b, totals, moments);
}

MX_CLONES(void, normalize, (const float* x, const float* mean, const float* scale, const float* shift, float* y,
                            const Block& b, bool add), (x, mean, scale, shift, y, b, add)) {
  if (b.inner > 1) return normalize_runs(x, mean, scale, shift, y, b, add);
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

MX_CLONES(void, normalize_past_caches, (const float* x, const float* mean, const float* scale, const float* shift,
                                        float* y, const Block& b), (x, mean, scale, shift, y, b)) {
  constexpr int64_t kAhead = 1024;  // elements: pages end before the processor has recognised the stream
  if (b.inner > 1) {
    for_runs(b, [&](int64_t c, int64_t at, int64_t n) MX_INLINE_LAMBDA {
      const float m = mean[c], k = scale[c], s = shift[c];
      const float* from = x + at;
      write_past_caches(
          y + at, n,
          [&](int64_t i) MX_INLINE_LAMBDA {
            __builtin_prefetch(from + i + kAhead);
            return (load_lanes(from + i) - m) * k + s;
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
          return (load_lanes(x + i) - load_lanes(mean + i)) * load_lanes(scale + i) + load_lanes(shift + i);
        },
        [&](int64_t i) MX_INLINE_LAMBDA { return (x[i] - mean[i]) * scale[i] + shift[i]; });
}

MX_CLONES(void, fill_past_caches, (float* y, float value, int64_t n), (y, value, n)) {
  write_past_caches(
      y, n, [&](int64_t) MX_INLINE_LAMBDA { return Lanes{} + value; }, [&](int64_t) MX_INLINE_LAMBDA { return value; });
}

MX_CLONES(void, combine, (const float* g, const float* x, const float* mean, const float* a, const float* b,
                          const float* c, float* y, const Block& block, bool add),
          (g, x, mean, a, b, c, y, block, add)) {
  combine_runs(g, x, mean, a, b, c, y, block, add);
}

// Runs of BFloat16.

MX_CLONES(void, sums, (const BFloat16* x, const Block& b, double* result), (x, b, result)) { run_sums(x, b, result); }
MX_CLONES(void, squared_deviations, (const BFloat16* x, const float* mean, const Block& b, double* result),
          (x, mean, b, result)) {
  run_squared_deviations(x, mean, b, result);
}
MX_CLONES(void, gradient_sums, (const BFloat16* g, const BFloat16* x, const float* mean, const Block& b,
                                double* totals, double* moments), (g, x, mean, b, totals, moments)) {
  run_gradient_sums(g, x, mean, b, totals, moments);
}
MX_CLONES(void, normalize, (const BFloat16* x, const float* mean, const float* scale, const float* shift, BFloat16* y,
                            const Block& b, bool add), (x, mean, scale, shift, y, b, add)) {
  normalize_runs(x, mean, scale, shift, y, b, add);
}
MX_CLONES(void, combine, (const BFloat16* g, const BFloat16* x, const float* mean, const float* a, const float* b,
                          const float* c, BFloat16* y, const Block& block, bool add),
          (g, x, mean, a, b, c, y, block, add)) {
  combine_runs(g, x, mean, a, b, c, y, block, add);
}

MX_CLONES(double, dot, (const float* a, const float* b, int64_t n), (a, b, n)) { return dot_of(a, b, n); }
MX_CLONES(double, dot, (const BFloat16* a, const BFloat16* b, int64_t n), (a, b, n)) { return dot_of(a, b, n); }

}  // namespace mx::cpu
