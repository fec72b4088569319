// SPDX-License-Identifier: Apache-2.0
//
// float64 functions without branches, like those of math32.hpp.  Polynomials are Taylor's: on the reduced range what
// they leave out is below half an ulp.
#pragma once

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

MX_INLINE double sigmoid64(double x) { return 1.0 / (1.0 + exp64(-x)); }

// Powers of x by their coefficients, the highest first.
template <class... More>
MX_INLINE double horner(double x, double sum, More... more) {
  ((sum = sum * x + more), ...);
  return sum;
}

// erfc(t) exp(t^2) is a polynomial in 1 / (t + 3) from 1 to 6, where erf is 1.  Both are Chebyshev interpolations made
// for this file.
MX_INLINE double erf64(double x) {
  const double t = absolute(x), z = x * x;
  const double small = x * horner(z, -7.7958988270021422e-10, 1.3720064546777686e-08, -1.6208483801871706e-07,
                                  1.6447424703317362e-06, -1.4924736907419660e-05, 1.2055294904839708e-04,
                                  -8.5483259753896921e-04, 5.2239776071164227e-03, -2.6866170643237770e-02,
                                  1.1283791670945006e-01, -3.7612638903183540e-01, 1.2837916709551257e-01) + x;
  const double s = t > 6.0 ? 6.0 : t, v = 14.4 / (s + 3.0) - 2.6;
  const double q = horner(v, -6.6976455647908151e-15, 6.0437921477888128e-12, -6.0217325603032397e-12,
                          -2.5700407551346904e-10, 2.6377560229741262e-10, 1.1339335731147059e-08,
                          4.5267318133461339e-09, -5.5412730980166400e-07, -2.4255574850429228e-06,
                          1.9563583197781741e-05, 3.3160296057928385e-04, 2.4793146970862531e-03,
                          1.2713147695691918e-02, 4.9698445403394136e-02, 1.5436117429436918e-01,
                          2.0798329133342887e-01);
  const Reduced<double> reduced = reduce_ln2(-s * s);  // not below -36: one factor will do
  const double tail = (1.0 + expm1_reduced(reduced.r)) * power_of_two(reduced.n) * q;
  const double large = copy_sign(1.0 - tail, x);
  return t < 1.0 || x != x ? small : large;
}

}  // namespace mx::cpu
