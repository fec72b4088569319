// SPDX-License-Identifier: Apache-2.0
#include "codec.hpp"

#include <array>
#include <cstring>

#include "simd.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mx::kv {
namespace {

// The bits of eight values as the low bits of eight codes: bit i, of value i, goes where value i has its code.
constexpr std::array<uint16_t, 256> spread_bits() {
  std::array<uint16_t, 256> table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned word = 0;
    for (unsigned i = 0; i < 8; ++i) {
      if ((mask >> i & 1u) != 0) word |= 1u << (8 * (i / 4) + 6 - 2 * (i % 4));
    }
    table[mask] = static_cast<uint16_t>(word);
  }
  return table;
}

constexpr std::array<uint8_t, 256> reversed_bits() {
  std::array<uint8_t, 256> table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned byte = 0;
    for (unsigned i = 0; i < 8; ++i) byte |= (mask >> i & 1u) << (7 - i);
    table[mask] = static_cast<uint8_t>(byte);
  }
  return table;
}

constexpr std::array<uint16_t, 256> kSpread = spread_bits();
constexpr std::array<uint8_t, 256> kReversed = reversed_bits();

// Codes of eight values, of which a bit says what was sent.
void put_two_bits(uint8_t* codes, unsigned positive, unsigned negative) noexcept {
  const unsigned word = static_cast<unsigned>(kSpread[positive | negative]) << 1 | kSpread[positive];
  codes[0] = static_cast<uint8_t>(word);
  codes[1] = static_cast<uint8_t>(word >> 8);
}

// One value: what is sent of it, 1, -1 or 0.
int two_bits_of(float threshold, float gradient, float* residual) noexcept {
  const float r = *residual + gradient;
  const int sent = r >= threshold ? 1 : r <= -threshold ? -1 : 0;
  *residual = sent == 0 ? r : sent > 0 ? r - threshold : r + threshold;
  return sent;
}

int one_bit_of(float threshold, float gradient, float* residual) noexcept {
  const float r = *residual + gradient;
  const int sent = r > threshold ? 1 : 0;
  *residual = sent != 0 ? r - 1.0f : r + 1.0f;
  return sent;
}

// Values [begin, n), begin a multiple of 8.
void two_bits_plainly(float threshold, const float* gradient, float* residual, uint8_t* codes, int64_t begin,
                      int64_t n) noexcept {
  for (int64_t at = begin; at < n; at += 8) {
    unsigned positive = 0, negative = 0;
    for (int64_t i = 0; i < 8 && at + i < n; ++i) {
      const int sent = two_bits_of(threshold, gradient[at + i], residual + at + i);
      if (sent > 0) positive |= 1u << i;
      if (sent < 0) negative |= 1u << i;
    }
    uint8_t two[2];
    put_two_bits(two, positive, negative);
    codes[at / 4] = two[0];
    if (at + 4 < n) codes[at / 4 + 1] = two[1];
  }
}

void one_bit_plainly(float threshold, const float* gradient, float* residual, uint8_t* codes, int64_t begin,
                     int64_t n) noexcept {
  for (int64_t at = begin; at < n; at += 8) {
    unsigned sent = 0;
    for (int64_t i = 0; i < 8 && at + i < n; ++i) {
      if (one_bit_of(threshold, gradient[at + i], residual + at + i) != 0) sent |= 1u << i;
    }
    codes[at / 8] = kReversed[sent];
  }
}

#if defined(__x86_64__)

// Values [0, n), n a multiple of 8.
MX_KV_AVX2 void two_bits_by_avx2(float threshold, const float* gradient, float* residual, uint8_t* codes,
                                 int64_t n) noexcept {
  const __m256 above = _mm256_set1_ps(threshold), below = _mm256_set1_ps(-threshold);
  for (int64_t at = 0; at < n; at += 8) {
    const __m256 r = _mm256_add_ps(_mm256_loadu_ps(residual + at), _mm256_loadu_ps(gradient + at));
    const __m256 positive = _mm256_cmp_ps(r, above, _CMP_GE_OQ), negative = _mm256_cmp_ps(r, below, _CMP_LE_OQ);
    const __m256 sent = _mm256_or_ps(_mm256_and_ps(positive, above), _mm256_and_ps(negative, below));
    _mm256_storeu_ps(residual + at, _mm256_sub_ps(r, sent));
    put_two_bits(codes + at / 4, static_cast<unsigned>(_mm256_movemask_ps(positive)),
                 static_cast<unsigned>(_mm256_movemask_ps(negative)));
  }
}

MX_KV_AVX2 void one_bit_by_avx2(float threshold, const float* gradient, float* residual, uint8_t* codes,
                                int64_t n) noexcept {
  const __m256 above = _mm256_set1_ps(threshold), one = _mm256_set1_ps(1.0f), minus = _mm256_set1_ps(-1.0f);
  for (int64_t at = 0; at < n; at += 8) {
    const __m256 r = _mm256_add_ps(_mm256_loadu_ps(residual + at), _mm256_loadu_ps(gradient + at));
    const __m256 positive = _mm256_cmp_ps(r, above, _CMP_GT_OQ);
    _mm256_storeu_ps(residual + at, _mm256_sub_ps(r, _mm256_blendv_ps(minus, one, positive)));
    codes[at / 8] = kReversed[static_cast<unsigned>(_mm256_movemask_ps(positive))];
  }
}

#endif

// `table` has the values of every byte, one after the other.
template <int64_t kValues>
MX_KV_INLINE void expand_bytes(const float* table, const uint8_t* codes, float* values, int64_t n, bool add) noexcept {
  const int64_t whole = n / kValues;
  if (add) {
    for (int64_t i = 0; i < whole; ++i) {
      const float* from = table + codes[i] * kValues;
      float* to = values + i * kValues;
      for (int64_t j = 0; j < kValues; ++j) to[j] += from[j];
    }
  } else {
    for (int64_t i = 0; i < whole; ++i) {
      std::memcpy(values + i * kValues, table + codes[i] * kValues, kValues * sizeof(float));
    }
  }
  for (int64_t i = whole * kValues; i < n; ++i) {
    const float value = table[codes[whole] * kValues + i - whole * kValues];
    values[i] = add ? values[i] + value : value;
  }
}

template <int64_t kValues>
void expand_plainly(const float* table, const uint8_t* codes, float* values, int64_t n, bool add) noexcept {
  expand_bytes<kValues>(table, codes, values, n, add);
}

template <int64_t kValues>
MX_KV_AVX2 void expand_by_avx2(const float* table, const uint8_t* codes, float* values, int64_t n, bool add) noexcept {
  expand_bytes<kValues>(table, codes, values, n, add);
}

template <int64_t kValues>
void expand_by(const float* table, const uint8_t* codes, float* values, int64_t n, bool add) noexcept {
  has_avx2() ? expand_by_avx2<kValues>(table, codes, values, n, add)
             : expand_plainly<kValues>(table, codes, values, n, add);
}

}  // namespace

void compress(Code code, float threshold, const float* gradient, float* residual, uint8_t* codes, int64_t n) noexcept {
  int64_t done = 0;
#if defined(__x86_64__)
  if (has_avx2()) {
    done = n / 8 * 8;
    if (code == Code::kOneBit) {
      one_bit_by_avx2(threshold, gradient, residual, codes, done);
    } else {
      two_bits_by_avx2(threshold, gradient, residual, codes, done);
    }
  }
#endif
  if (code == Code::kOneBit) {
    one_bit_plainly(threshold, gradient, residual, codes, done, n);
  } else {
    two_bits_plainly(threshold, gradient, residual, codes, done, n);
  }
  for (int64_t i = (n + per_byte(code) - 1) / per_byte(code); i < code_bytes(code, n); ++i) codes[i] = 0;
}

Expander::Expander(Code code, float threshold) noexcept : code_(code) {
  const float of_two[4] = {0.0f, 0.0f, -threshold, threshold};
  const int per = static_cast<int>(per_byte(code));
  for (int byte = 0; byte < 256; ++byte) {
    for (int i = 0; i < per; ++i) {
      const bool one = (byte >> (7 - i) & 1) != 0;
      table_[byte * per + i] = code == Code::kOneBit ? (one ? 1.0f : -1.0f) : of_two[byte >> (6 - 2 * (i % 4)) & 3];
    }
  }
}

void Expander::operator()(const uint8_t* codes, float* values, int64_t n, bool add) const noexcept {
  code_ == Code::kOneBit ? expand_by<8>(table_, codes, values, n, add) : expand_by<4>(table_, codes, values, n, add);
}

}  // namespace mx::kv
