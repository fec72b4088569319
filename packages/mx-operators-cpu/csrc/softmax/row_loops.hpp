// SPDX-License-Identifier: Apache-2.0
//
// What softmax and its logarithm do to the elements of a row, for functions that go over many rows.
#pragma once

#include <limits>

#include "common/clones.hpp"
#include "common/math32.hpp"
#include "common/math64.hpp"

namespace mx::cpu {

// exp(x) of what is at most 0: one factor is never subnormal, the other rounds the result once.
MX_INLINE float power(float x) {
  const Reduced<float> reduced = reduce_ln2(x < -104.0f ? -104.0f : x);
  const float factor = power_of_two(reduced.n + 24);
  return (expm1_reduced(reduced.r) * factor + factor) * 0x1p-24f;
}
MX_INLINE double power(double x) { return exp64(x); }

constexpr int64_t kBlock = 16;  // elements that are computed together, also where fewer are left

template <class T>
MX_INLINE T larger(T x, T top) { return x > top ? x : top; }

// Four maxima or sums of long rows: none waits for another.

template <class T>
MX_INLINE T largest_of(const T* x, int64_t n) {
  const int64_t part = n / (4 * kBlock) * kBlock;
  T a = -std::numeric_limits<T>::infinity();
  if (part != 0) {
    T b = a, c = a, d = a;
#pragma omp simd reduction(max : a, b, c, d)
    for (int64_t i = 0; i < part; ++i) {
      a = larger(x[i], a);
      b = larger(x[i + part], b);
      c = larger(x[i + 2 * part], c);
      d = larger(x[i + 3 * part], d);
    }
    a = larger(larger(a, b), larger(c, d));
  }
#pragma omp simd reduction(max : a)
  for (int64_t i = 4 * part; i < n; ++i) a = larger(x[i], a);
  return a;
}

template <class T, class Element>
MX_INLINE T sum_of(int64_t n, const Element& element) {
  const int64_t part = n / (4 * kBlock) * kBlock;
  T a = 0;
  if (part != 0) {
    T b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < part; ++i) {
      a += element(i);
      b += element(i + part);
      c += element(i + 2 * part);
      d += element(i + 3 * part);
    }
    a = (a + b) + (c + d);
  }
#pragma omp simd reduction(+ : a)
  for (int64_t i = 4 * part; i < n; ++i) a += element(i);
  return a;
}

// The sum of exp((x - top) * factor).  If `y` is there it gets the powers; it may be x.
template <class T, bool Kept>
MX_INLINE T powers_of(const T* x, T top, T factor, T* y, int64_t n) {
  const int64_t whole = n / kBlock * kBlock, rest = n - whole;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < whole; ++i) {
    const T value = power((x[i] - top) * factor);
    if (Kept) y[i] = value;
    sum += value;
  }
  if (rest == 0) return sum;
  T block[kBlock] = {};
  for (int64_t i = 0; i < rest; ++i) block[i] = (x[whole + i] - top) * factor;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < kBlock; ++i) {
    block[i] = power(block[i]);
    sum += i < rest ? block[i] : T(0);
  }
  if (Kept)
    for (int64_t i = 0; i < rest; ++i) y[whole + i] = block[i];
  return sum;
}

template <class T>
MX_INLINE void scale_all(T* y, T factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

}  // namespace mx::cpu
