// SPDX-License-Identifier: Apache-2.0
#include "linear.hpp"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#define MX_AVX2 __attribute__((target("avx2")))
#endif

namespace mx::io {
namespace {

constexpr int64_t kStep = 8;  // pixels at a time

bool has_avx2() {
#if defined(__x86_64__)
  static const bool answer = __builtin_cpu_supports("avx2");
  return answer;
#else
  return false;
#endif
}

// upper + (lower - upper) * share, from value `begin` on.
void mix(const uint8_t* upper, const uint8_t* lower, int16_t share, int64_t begin, int64_t count, int16_t* out) {
  for (int64_t i = begin; i < count; ++i) {
    out[i] = static_cast<int16_t>(upper[i] * 128 + (((lower[i] - upper[i]) * 128 * share + 0x4000) >> 15));
  }
}

void pick(const int16_t* mixed, const int32_t* left, const int16_t* weights, int64_t channels, int64_t width,
          uint8_t* out) {
  for (int64_t x = 0; x < width; ++x) {
    for (int64_t c = 0; c < channels; ++c) {
      const int16_t* const value = mixed + left[x] + c;
      out[x * channels + c] =
          static_cast<uint8_t>((value[0] * weights[8 * x] + value[channels] * weights[8 * x + 1] + (1 << 20)) >> 21);
    }
  }
}

#if defined(__x86_64__)

MX_AVX2 int64_t mix_avx2(const uint8_t* upper, const uint8_t* lower, int16_t share, int64_t count, int16_t* out) {
  const __m256i factor = _mm256_set1_epi16(share);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(upper + i)));
    const __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lower + i)));
    const __m256i change = _mm256_mulhrs_epi16(_mm256_slli_epi16(_mm256_sub_epi16(b, a), 7), factor);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_add_epi16(_mm256_slli_epi16(a, 7), change));
  }
  return i;
}

// Three channels of two pixels, four values each of which the last means nothing.
MX_AVX2 inline __m256i pick_two(const int16_t* mixed, const int32_t* left, const int16_t* weights) {
  const auto at = [=](int64_t i) MX_AVX2 { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(mixed + left[i])); };
  const __m256i pairs = _mm256_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1,  //
                                         0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
  const __m256i values = _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(at(0)), at(1), 1), pairs);
  const __m256i sums = _mm256_madd_epi16(values, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights)));
  return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(1 << 20)), 21);
}

MX_AVX2 void pick_avx2(const int16_t* mixed, const int32_t* left, const int16_t* weights, int64_t width, uint8_t* out) {
  const __m256i tight = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,  //
                                         0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int64_t x = 0; x < width; x += kStep) {
    __m256i halves[2];
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t at = x + 4 * i;
      halves[i] = _mm256_packs_epi32(pick_two(mixed, left + at, weights + 8 * at),
                                     pick_two(mixed, left + at + 2, weights + 8 * (at + 2)));
    }
    const __m256i pixels = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(halves[0], halves[1]), order);
    const __m256i bytes = _mm256_shuffle_epi8(pixels, tight);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * x), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * x + 12), _mm256_extracti128_si256(bytes, 1));
  }
}

#else

int64_t mix_avx2(const uint8_t*, const uint8_t*, int16_t, int64_t, int16_t*) { return 0; }
void pick_avx2(const int16_t*, const int32_t*, const int16_t*, int64_t, uint8_t*) {}

#endif

}  // namespace

void LinearRows::begin(const ImageView& source, const Neighbours& rows, const Neighbours& columns) {
  source_ = source;
  width_ = static_cast<int64_t>(columns.left.size());
  upper_ = rows.left;
  share_.resize(rows.share.size());
  for (size_t y = 0; y < share_.size(); ++y) {
    share_[y] = static_cast<int16_t>(std::min(32767.0F, rows.share[y] * 32768.0F + 0.5F));
  }
  left_.assign(static_cast<size_t>(width_ + kStep), 0);
  weights_.assign(static_cast<size_t>(8 * (width_ + kStep)), 0);
  for (int64_t x = 0; x < width_; ++x) {
    const auto right = static_cast<int16_t>(columns.share[x] * 16384.0F + 0.5F);
    left_[x] = static_cast<int32_t>(columns.left[x] * source.channels);
    for (int64_t i = 0; i < 8; ++i) weights_[8 * x + i] = static_cast<int16_t>(i % 2 == 0 ? 16384 - right : right);
  }
  // One pixel more than there is, and what a vector reads behind it; their weights are 0.
  mixed_.assign(static_cast<size_t>((source.width + 1) * source.channels + 16), 0);
}

void LinearRows::row(int64_t y, uint8_t* out) {
  const uint8_t* const upper = source_.row(upper_[y]);
  const uint8_t* const lower = source_.row(std::min<int64_t>(upper_[y] + 1, source_.height - 1));
  const int64_t count = source_.width * source_.channels;
  const int64_t done = has_avx2() ? mix_avx2(upper, lower, share_[y], count, mixed_.data()) : 0;
  mix(upper, lower, share_[y], done, count, mixed_.data());
  if (has_avx2() && source_.channels == 3) {
    pick_avx2(mixed_.data(), left_.data(), weights_.data(), width_, out);
  } else {
    pick(mixed_.data(), left_.data(), weights_.data(), source_.channels, width_, out);
  }
}

}  // namespace mx::io
