// SPDX-License-Identifier: Apache-2.0
//
// float64 functions without branches, like those of math32.hpp.  Polynomials are Taylor's: on the reduced range what
// they leave out is below half an ulp.
#pragma once

#include "common/erf_points.hpp"
#include "common/math32.hpp"

namespace mx::cpu {

// exp(r) - 1 on the reduced range.
MX_INLINE double expm1_reduced(double r) {
  const double r2 = r * r, r4 = r2 * r2;
  const double a = r * (1.0 / 6) + 0.5;
  const double b = r * (1.0 / 120) + 1.0 / 24;
  const double c = r * (1.0 / 5040) + 1.0 / 720;
  const double d = r * (1.0 / 362880) + 1.0 / 40320;
  const double e = r * (1.0 / 39916800) + 1.0 / 3628800;
  const double f = r * (1.0 / 6227020800) + 1.0 / 479001600;
  return (((f * r2 + e) * r4 + (d * r2 + c)) * r4 + (b * r2 + a)) * r2 + r;
}

MX_INLINE double exp64(double x) {
  x = x > 710.0 ? 710.0 : x;
  x = x < -746.0 ? -746.0 : x;
  const Reduced<double> reduced = reduce_ln2(x);
  // Two factors: the result may be subnormal.  Shifted as a positive number, which every instruction set can.
  const auto half = static_cast<int64_t>(static_cast<uint64_t>(reduced.n + 2048) >> 1) - 1024;
  return (1.0 + expm1_reduced(reduced.r)) * power_of_two(half) * power_of_two(reduced.n - half);
}

// expm1(t) / (expm1(t) + 2) with t = 2|x|: 1 from 20 on, so the reduction needs no limits.
MX_INLINE double tanh64(double x) {
  const double magnitude = absolute(x);
  const Reduced<double> reduced = reduce_ln2(2.0 * (magnitude > 20.0 ? 20.0 : magnitude));
  const double scale = power_of_two(reduced.n);
  const double t = scale * expm1_reduced(reduced.r) + (scale - 1.0);
  return copy_sign(t / (t + 2.0), x);
}

// With e = exp(-|x|), which does not overflow: 1 / (1 + e) or e / (1 + e).
MX_INLINE double sigmoid64(double x) {
  const double e = exp64(-absolute(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// erf of what is not negative, or NaN, with an error that is small compared with 1.  With t = r + d, r a point of the
// table, what is missing is the slope there times the integral of exp(-2 r s - s^2) over s from 0 to d, a power series
// in 2 r d and 2 d^2; terms of d^6 are below half an ulp.
MX_INLINE double erf_by_points(double t) {
  const double shifted = (t < kErfEnd ? t : kErfEnd) + kErfMagic;  // a number even for NaN: it is a place
  const double r = shifted - kErfMagic, d = (t > kErfEnd ? kErfEnd : t) - r;
  const ErfPoint& point = kErfPoints.at[static_cast<int64_t>(bits_of(shifted) - bits_of(kErfMagic))];
  const double w = 2.0 * d * r, z = 2.0 * d * d;
  const double first = (((w * (1.0 / 120) - 1.0 / 24) * w + 1.0 / 6) * w - 0.5) * w + 1.0;
  const double second = (w * (-1.0 / 20) + 1.0 / 8) * w + (z * (1.0 / 40) - 1.0 / 6);
  return point.slope * d * (second * z + first) + point.value;
}

constexpr double kErfSlope = 1.1283791670955126;  // at 0
constexpr double kErfSmall = 1.0 / 32;            // below, few powers are enough for all bits

MX_INLINE double erf64(double x) {
  const double t = absolute(x), z = x * x;
  const double p = ((z * (kErfSlope / 216) - kErfSlope / 42) * z + kErfSlope / 10) * z - kErfSlope / 3;
  const double small = x * (p * z + (kErfSlope - 1.0)) + x;
  const double large = copy_sign(erf_by_points(t), x);
  return t < kErfSmall ? small : large;
}

// x times the normal distribution function of x; it has the sign of x, of -0 too.
MX_INLINE double gelu64(double x) {
  const double half = 0.5 * x;
  return copy_sign(absolute(half) * erf_by_points(absolute(x) * 0.7071067811865476) + half, x);
}

}  // namespace mx::cpu
