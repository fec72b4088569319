// SPDX-License-Identifier: Apache-2.0
//
// 16-bit floating-point numbers: their bits, and conversion from and to float32.  Header-only C++17, no Python.
//
// Without a branch and always inlined, so that loops over them are vectorised by whatever instruction set they are
// compiled for.
#pragma once

#include <cstdint>

namespace mx {

namespace detail {

#define MX_HALF_INLINE inline __attribute__((always_inline))

MX_HALF_INLINE uint32_t float_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
MX_HALF_INLINE float float_from(uint32_t bits) { return __builtin_bit_cast(float, bits); }

}  // namespace detail

// The upper half of a float32.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  // Rounds to nearest even; keeps NaN.
  MX_HALF_INLINE explicit BFloat16(float value) {
    const uint32_t u = detail::float_bits(value), rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>(value != value ? (u >> 16) | 64u : rounded);
  }
  MX_HALF_INLINE explicit operator float() const { return detail::float_from(static_cast<uint32_t>(bits) << 16); }
};

// IEEE 754 binary16.
struct Float16 {
  uint16_t bits;
  Float16() = default;
  // Rounds to nearest even; what is too large becomes infinite, and every NaN the quiet one.
  MX_HALF_INLINE explicit Float16(float value) {
    const uint32_t magnitude = detail::float_bits(value) & 0x7fffffffu;
    const uint32_t sign = (detail::float_bits(value) >> 16) & 0x8000u;
    const uint32_t rounded = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;  // 2^-14 and above
    const uint32_t subnormal = detail::float_bits(detail::float_from(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t u = magnitude < 0x38800000u ? subnormal : rounded;
    u = magnitude >= 0x47800000u ? 0x7c00u : u;
    u = magnitude > 0x7f800000u ? 0x7e00u : u;
    bits = static_cast<uint16_t>(u | sign);
  }
  MX_HALF_INLINE explicit operator float() const {
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    // Moves the exponent from bias 15 to 127 by a multiplication with 2^112, which also normalises subnormals.
    const uint32_t finite = detail::float_bits(detail::float_from(magnitude) * 5.192296858534828e33f);
    return detail::float_from(((bits & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : finite) | sign);
  }
};

#undef MX_HALF_INLINE

}  // namespace mx
