// SPDX-License-Identifier: Apache-2.0
//
// Marsaglia and Tsang, A simple method for generating gamma variables, 2000, for many numbers side by side.
// Logarithm and cosine are their series, far enough for double; no branches, so that they are vectors.
#include "random/gamma_tries.hpp"

#include <cmath>

#include "common/clones.hpp"

namespace mx::cpu {
namespace {

constexpr double kPi = 3.14159265358979323846;

MX_INLINE double number_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }
MX_INLINE uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }

// log x = e log 2 + 2 artanh((m - 1) / (m + 1)) with x = m 2^e, m in [1/sqrt 2, sqrt 2); x normal, positive.
MX_INLINE double logarithm(double x) {
  constexpr uint64_t kRoot = 0x3fe6a09e667f3bcd, kBias = uint64_t{1023} << 52, kFraction = (uint64_t{1} << 52) - 1;
  const uint64_t offset = bits_of(x) - kRoot + kBias;
  const double e = number_of((offset >> 52) | 0x4330000000000000) - 4503599627371519.0;  // 2^52 and the bias
  const double m = number_of((offset & kFraction) + kRoot);
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 21;
  p = p * z + 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return e * 0.69314718055994530942 + (2 * s * (p * z) + 2 * s);
}

// cos(2 pi v) for v in [0, 1): an eighth of a turn from the nearest quarter.
MX_INLINE double cosine_of_turns(double v) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  const double shifted = 4 * v + kMagic;
  const uint64_t quarter = bits_of(shifted);
  const double t = 2 * kPi * (v - (shifted - kMagic) * 0.25), z = t * t;
  double c = -1.0 / 6402373705728000.0, s = 1.0 / 355687428096000.0;
  c = c * z + 1.0 / 20922789888000.0;
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = (c * z - 0.5) * z + 1.0;
  s = s * z - 1.0 / 1307674368000.0;
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = s * z * t + t;
  const uint64_t sign = ((quarter + 1) & 2) << 62;
  return number_of(bits_of((quarter & 1) != 0 ? s : c) ^ sign);
}

// A uniform number in [0, 1) of each pair of words at `first` of its block.
MX_CLONES(void, uniforms, (const uint32_t* words, int64_t first, double* to, int64_t n), (words, first, to, n)) {
  for (int64_t i = 0; i < n; ++i) {  // 53 bits in two parts: conversions of 32 bits are in every instruction set
    const uint32_t low = words[4 * i + first], high = words[4 * i + first + 1];
    const auto upper = static_cast<int32_t>(high >> 6), lower = static_cast<int32_t>((high & 63) << 21 | low >> 11);
    to[i] = (static_cast<double>(upper) * 0x1p27 + static_cast<double>(lower)) * 0x1p-53;
  }
}

// u: of the radius, then the normal number.
MX_CLONES(void, normals, (double* u, const double* turn, int64_t n), (u, turn, n)) {
  for (int64_t i = 0; i < n; ++i)
    u[i] = __builtin_sqrt(-2 * logarithm(u[i] + 0x1p-53)) * cosine_of_turns(turn[i]);
}

MX_CLONES(void, accept, (const double* normal, const double* uniform, double d, double c, double* values, int64_t n),
          (normal, uniform, d, c, values, n)) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = normal[i], root = 1 + c * x, v = root * root * root, square = x * x;
    const bool surely = (v > 0) & (uniform[i] < 1 - 0.0331 * square * square);
    values[i] = surely ? d * v : -1.0;
  }
}

}  // namespace

void gamma_tries(const uint32_t* normal_words, const uint32_t* uniform_words, double shape, double* values, int64_t n) {
  double radius[kTries], turn[kTries];
  uniforms(normal_words, 0, radius, n);
  uniforms(normal_words, 2, turn, n);
  normals(radius, turn, n);
  uniforms(uniform_words, 0, turn, n);
  const double d = shape - 1.0 / 3;
  accept(radius, turn, d, 1 / std::sqrt(9 * d), values, n);
}

}  // namespace mx::cpu
