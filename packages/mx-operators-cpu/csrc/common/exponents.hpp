// SPDX-License-Identifier: Apache-2.0
//
// What exponential functions share in float32 and float64: bits, signs, the reduction of the argument.  Without
// branches, as math32.hpp.
#pragma once

#include <cstdint>

#include "common/clones.hpp"

namespace mx::cpu {

MX_INLINE float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
MX_INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
MX_INLINE double double_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }
MX_INLINE uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }

MX_INLINE float absolute(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
MX_INLINE double absolute(double x) { return double_of(bits_of(x) & 0x7fffffffffffffffu); }
MX_INLINE float copy_sign(float magnitude, float sign) {
  return float_of((bits_of(magnitude) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}
MX_INLINE double copy_sign(double magnitude, double sign) {
  return double_of((bits_of(magnitude) & 0x7fffffffffffffffu) | (bits_of(sign) & 0x8000000000000000u));
}
MX_INLINE float power_of_two(int32_t n) { return float_of(static_cast<uint32_t>(n + 127) << 23); }
MX_INLINE double power_of_two(int64_t n) { return double_of(static_cast<uint64_t>(n + 1023) << 52); }

// ln2 is high + low, where multiples of high by exponents are exact.
template <class T>
struct Ln2;
template <>
struct Ln2<float> {
  using Integer = int32_t;
  static constexpr float high = 0.693145752f, low = 1.42860677e-06f, inverse = 1.44269504f;
  static constexpr float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
};
template <>
struct Ln2<double> {
  using Integer = int64_t;
  static constexpr double high = 6.93147180369123816490e-01, low = 1.90821492927058770002e-10;
  static constexpr double inverse = 1.4426950408889634;
  static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
};

// x = n ln2 + r with |r| <= ln2 / 2.
template <class T>
struct Reduced {
  typename Ln2<T>::Integer n;
  T r;
};
template <class T>
MX_INLINE Reduced<T> reduce_ln2(T x) {
  using C = Ln2<T>;
  const T shifted = x * C::inverse + C::magic;
  const T n = shifted - C::magic;
  const T r = (x - n * C::high) - n * C::low;
  return {static_cast<typename C::Integer>(bits_of(shifted) - bits_of(C::magic)), r};
}

}  // namespace mx::cpu
