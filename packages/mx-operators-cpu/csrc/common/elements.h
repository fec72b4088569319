// SPDX-License-Identifier: Apache-2.0
//
// Elements of either type as floats, without a branch, so that loops over them are vectorised.  Included
// behind math32.h inside the namespace of each translation unit.

MX_INLINE float get(const float* p, int64_t j) { return p[j]; }
MX_INLINE float get(const BFloat16* p, int64_t j) { return float_of(static_cast<uint32_t>(p[j].bits) << 16); }
MX_INLINE void put(float* p, int64_t j, float x) { p[j] = x; }
// As BFloat16(x).
MX_INLINE void put(BFloat16* p, int64_t j, float x) {
  const uint32_t bits = bits_of(x), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  p[j].bits = static_cast<uint16_t>(x != x ? (bits >> 16) | 64u : rounded);
}
