// SPDX-License-Identifier: Apache-2.0
//
// 16-bit floating-point numbers: every one of them, and roundings against arithmetic in float64.
#include "mx_core/half.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "mx_core/native_tests.hpp"

using mx::BFloat16;
using mx::Float16;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The nearest number with `digits` binary digits and exponents from `least` on, ties to even; `largest` and half a step
// more are infinite.
float nearest(float x, int digits, int least, double largest) {
  if (x == 0 || std::isinf(x)) return x;
  const double magnitude = std::fabs(static_cast<double>(x));
  const double step = std::ldexp(1.0, std::max(std::ilogb(magnitude), least) - digits + 1);
  const double rounded = std::nearbyint(magnitude / step) * step;
  return static_cast<float>(std::copysign(rounded > largest ? HUGE_VAL : rounded, x));
}

template <class Half>
void every_number_comes_back() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = static_cast<uint16_t>(bits);
    const auto wide = static_cast<float>(half);
    if (std::isnan(wide)) {
      CHECK(std::isnan(static_cast<float>(Half(wide))));
    } else {
      CHECK(Half(wide).bits == bits);
    }
  }
}

template <class Half>
void roundings(int digits, int least, double largest) {
  uint32_t state = 1;
  for (int i = 0; i < 2'000'000; ++i) {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    // Every other number is a tie or one step beside it.
    const uint32_t tie = (state & 0xffff0000u) | 0x8000u;
    const float x = from_bits(i % 2 == 0 ? state : tie - 1 + state % 3);
    const auto found = static_cast<float>(Half(x));
    if (std::isnan(x)) {
      CHECK(std::isnan(found));
    } else {
      CHECK(bits_of(found) == bits_of(nearest(x, digits, least, largest)));
    }
  }
}

void limits_of_float16() {
  CHECK(Float16(kInfinity).bits == 0x7c00 && Float16(-kInfinity).bits == 0xfc00);
  CHECK(Float16(65504.0f).bits == 0x7bff && Float16(65519.996f).bits == 0x7bff && Float16(65520.0f).bits == 0x7c00);
  CHECK(Float16(std::ldexp(1.0f, -24)).bits == 1 && Float16(std::ldexp(1.0f, -25)).bits == 0);
  CHECK(Float16(std::ldexp(1.5f, -25)).bits == 1 && Float16(-0.0f).bits == 0x8000);
  CHECK(Float16(std::ldexp(1.0f, -14)).bits == 0x0400 && Float16(1.0f).bits == 0x3c00);
  CHECK(Float16(from_bits(0x7f800001u)).bits == 0x7e00 && Float16(from_bits(0xffffffffu)).bits == 0xfe00);
  for (uint32_t mantissa = 0; mantissa < 1 << 13; ++mantissa) {  // all of a step above 1
    const float x = from_bits(0x3f800000u + mantissa);
    CHECK(Float16(x).bits == 0x3c00 + (mantissa > 0x1000 ? 1 : 0));
  }
}

void limits_of_bfloat16() {
  CHECK(BFloat16(kInfinity).bits == 0x7f80 && BFloat16(-kInfinity).bits == 0xff80);
  CHECK(BFloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(std::isnan(static_cast<float>(BFloat16(from_bits(0x7f800001u)))));  // whose upper half is infinity's
  CHECK(BFloat16(from_bits(0x3f808000u)).bits == 0x3f80 && BFloat16(from_bits(0x3f818000u)).bits == 0x3f82);
}

}  // namespace

int main() {
  every_number_comes_back<Float16>();
  every_number_comes_back<BFloat16>();
  roundings<Float16>(11, -14, 65504.0);
  roundings<BFloat16>(8, -126, static_cast<double>(from_bits(0x7f7f0000u)));
  limits_of_float16();
  limits_of_bfloat16();
  std::puts("ok");
  return 0;
}
