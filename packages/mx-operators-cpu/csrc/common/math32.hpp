// SPDX-License-Identifier: Apache-2.0
//
// float32 functions without branches, which compilers turn into vector code; each takes on the instruction set of its
// caller.
// Polynomials: weighted minimax fits made for this file; reductions after Cody and Waite,
// Software Manual for the Elementary Functions, 1980. Errors are below 3 ulp (see the tests).
#pragma once

#include "common/exponents.hpp"

namespace mx::cpu {

constexpr float kInf = __builtin_inff();
constexpr float kNan = __builtin_nanf("");

// Polynomials are evaluated in pairs (Estrin's scheme): short chains keep the units busy.

// exp(r) - 1 on the reduced range.
MX_INLINE float expm1_reduced(float r) {
  const float r2 = r * r;
  const float a = 0.16666666f * r + 0.5f;
  const float b = 0.0083334986f * r + 0.041666292f;
  const float c = 0.00019790095f * r + 0.0013944878f;
  return ((c * r2 + b) * r2 + a) * r2 + r;
}

MX_INLINE float exp32(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const Reduced<float> reduced = reduce_ln2(x);
  const int32_t half = reduced.n >> 1;  // two factors: the result may be subnormal
  const float y = 1.0f + expm1_reduced(reduced.r);
  return y * power_of_two(half) * power_of_two(reduced.n - half);
}

MX_INLINE float expm1_32(float x) {
  const float original = x;
  x = x > 89.0f ? 89.0f : x;
  x = x < -20.0f ? -20.0f : x;
  const Reduced<float> reduced = reduce_ln2(x);
  const float scale = power_of_two(reduced.n - 1);
  const float y = 2.0f * (scale * expm1_reduced(reduced.r) + (scale - 0.5f));
  return original == 0.0f ? original : y;
}

// x = m 2^e with m in [1/sqrt 2, sqrt 2); `fraction` is log(m).
struct Logarithm {
  float exponent;
  float fraction;
};
MX_INLINE Logarithm split_normal(float x) {  // positive, finite, not subnormal
  const uint32_t offset = bits_of(x) - 0x3f3504f3u;  // 1/sqrt 2
  const int32_t exponent = static_cast<int32_t>(offset) >> 23;
  const float f = float_of((offset & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float square = f * f, fourth = square * square;
  const float a = -0.25000009f * f + 0.33333313f;
  const float b = -0.16667995f * f + 0.20002119f;
  const float c = -0.124056026f * f + 0.14219548f;
  const float d = -0.11675591f * f + 0.118882045f;
  const float p = (0.06746479f * fourth + (d * square + c)) * fourth + (b * square + a);
  return {static_cast<float>(exponent), (p * f * square - 0.5f * square) + f};
}
MX_INLINE Logarithm split_log(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const Logarithm l = split_normal(subnormal ? x * 8388608.0f : x);
  return {l.exponent - (subnormal ? 23.0f : 0.0f), l.fraction};
}
MX_INLINE float log_limits(float x, float y) {
  y = x == 0.0f ? -kInf : y;
  y = x < 0.0f ? kNan : y;
  y = x == kInf ? kInf : y;
  return x != x ? x : y;
}
MX_INLINE float natural(Logarithm l) {
  return (l.fraction + l.exponent * 1.42860677e-06f) + l.exponent * 0.693145752f;
}
MX_INLINE float log32(float x) { return log_limits(x, natural(split_log(x))); }
MX_INLINE bool is_normal_positive(float x) { return bits_of(x) - 0x00800000u < 0x7f000000u; }
MX_INLINE float log_normal32(float x) { return natural(split_normal(x)); }
MX_INLINE float log2_32(float x) {
  const Logarithm l = split_log(x);
  return log_limits(x, l.fraction * 1.92596303e-08f + l.fraction * 1.44269502f + l.exponent);
}
MX_INLINE float log10_32(float x) {
  const Logarithm l = split_log(x);
  const float low = l.fraction * 0.434294482f + l.exponent * 4.60503907e-06f;
  return log_limits(x, low + l.exponent * 0.301025391f);
}
MX_INLINE float log1p_32(float x) {
  const float u = 1.0f + x;
  const bool plain = u > 0.0f && u < kInf;
  const float lost = plain ? (x - (u - 1.0f)) / u : 0.0f;
  const float y = log32(u) + lost;
  return u == 1.0f ? x : y;
}

// expm1(t) / (expm1(t) + 2) with t = 2|x|: 1 from 10 on, so the reduction needs no limits.
MX_INLINE float tanh32(float x) {
  const float magnitude = absolute(x);
  const Reduced<float> reduced = reduce_ln2(2.0f * (magnitude > 10.0f ? 10.0f : magnitude));
  const float scale = power_of_two(reduced.n);
  const float t = scale * expm1_reduced(reduced.r) + (scale - 1.0f);
  return copy_sign(t / (t + 2.0f), x);
}
// With e = exp(-|x|), which does not overflow: 1 / (1 + e) or e / (1 + e).
MX_INLINE float sigmoid32(float x) {
  const float e = exp32(-absolute(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
MX_INLINE float softplus32(float x) {
  const float e = exp32(-absolute(x));  // in [0, 1]: log1p needs no special cases
  const float u = 1.0f + e;
  const Logarithm l = split_log(u);
  const float lost = (e - (u - 1.0f)) / u;
  return (x > 0.0f ? x : 0.0f) + ((l.fraction + l.exponent * 0.693147182f) + lost);
}

MX_INLINE float erf32(float x) {
  const float t = absolute(x);
  const float z = x * x;
  const float z2 = z * z;
  const float a = -0.37612635f * z + 0.12837917f;
  const float b = -0.02685927f * z + 0.11283694f;
  const float c = -0.00081374362f * z + 0.0052006342f;
  const float p = ((8.3452192e-05f * z2 + c) * z2 + b) * z2 + a;
  const float small = p * x + x;
  const float s = t > 4.0f ? 4.0f : t, s2 = s * s;
  const float d = 1.129397f * s - 0.0001533843f;  // the powers of -log(erfc(s))
  const float e = 0.10790574f * s + 0.6336273f;
  const float g = 0.0040134103f * s - 0.024812823f;
  const float h = 1.2330709e-05f * s - 0.00038478975f;
  const float q = ((h * s2 + g) * s2 + e) * s2 + d + 6.6276033e-07f * (s2 * s2) * (s2 * s2);
  const Reduced<float> reduced = reduce_ln2(-q);  // not below -17: one factor will do
  const float scale = power_of_two(reduced.n);
  const float large = copy_sign(1.0f - (scale * expm1_reduced(reduced.r) + scale), x);
  return t < 0.921875f || x != x ? small : large;
}

// x = n pi/2 + r with |r| <= pi/4, in double; good for |x| < 2^25.
constexpr float kTrigonometricLimit = 33554432.0f;
struct Quadrant {
  int64_t n;
  double r;
};
MX_INLINE Quadrant reduce_quadrant(float x) {
  constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  const double wide = x;
  const double shifted = wide * 0.63661977236758134 + magic;
  const double n = shifted - magic;
  const double r = (wide - n * 1.5707963267341256) - n * 6.0771005065061922e-11;
  return {static_cast<int64_t>(bits_of(shifted)), r};
}
MX_INLINE double sine_reduced(double r) {
  const double z = r * r;
  double p = 2.7557319223985893e-06;
  p = p * z - 1.9841269841269841e-04;
  p = p * z + 8.3333333333333332e-03;
  p = p * z - 1.6666666666666666e-01;
  return p * z * r + r;
}
MX_INLINE double cosine_reduced(double r) {
  const double z = r * r;
  double p = -2.7557319223985888e-07;
  p = p * z + 2.4801587301587302e-05;
  p = p * z - 1.3888888888888889e-03;
  p = p * z + 4.1666666666666664e-02;
  p = p * z - 0.5;
  return p * z + 1.0;
}
MX_INLINE double flip(double y, int64_t negative) {
  return double_of(bits_of(y) ^ (static_cast<uint64_t>(negative & 2) << 62));
}
MX_INLINE float sin32(float x) {
  const Quadrant q = reduce_quadrant(x);
  return static_cast<float>(flip((q.n & 1) != 0 ? cosine_reduced(q.r) : sine_reduced(q.r), q.n));
}
MX_INLINE float cos32(float x) {
  const Quadrant q = reduce_quadrant(x);
  return static_cast<float>(
      flip((q.n & 1) != 0 ? sine_reduced(q.r) : cosine_reduced(q.r), q.n + 1));
}
MX_INLINE float tan32(float x) {
  const Quadrant q = reduce_quadrant(x);
  const double s = sine_reduced(q.r), c = cosine_reduced(q.r);
  return static_cast<float>((q.n & 1) != 0 ? -c / s : s / c);
}

}  // namespace mx::cpu
