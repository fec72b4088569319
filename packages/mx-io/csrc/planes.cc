// SPDX-License-Identifier: Apache-2.0
#include "planes.hpp"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mx::io {
namespace {

// Columns [begin, width) of one channel of one row.
template <class Value, class Convert>
void write_row(const uint8_t* row, int64_t step, int64_t begin, int64_t width, bool mirrored, Value* out,
               Convert&& convert) {
  if (mirrored) {
    for (int64_t x = begin; x < width; ++x) out[width - 1 - x] = convert(row[x * step]);
  } else {
    for (int64_t x = begin; x < width; ++x) out[x] = convert(row[x * step]);
  }
}

#if defined(__x86_64__)

// Byte i of a channel's 16 values lies in vector (3i + channel) / 16 of the 48 interleaved bytes.
struct ShuffleTable {
  alignas(16) int8_t from[3][3][16];
};

constexpr ShuffleTable make_shuffles() {
  ShuffleTable table{};
  for (int channel = 0; channel < 3; ++channel) {
    for (int vector = 0; vector < 3; ++vector) {
      for (int i = 0; i < 16; ++i) {
        const int position = 3 * i + channel;
        table.from[channel][vector][i] = static_cast<int8_t>(position / 16 == vector ? position % 16 : -1);
      }
    }
  }
  return table;
}

constexpr ShuffleTable kShuffles = make_shuffles();

// Sixteen pixels of three channels, each channel by itself.
__attribute__((target("avx2"))) inline void split(const uint8_t* pixels, bool mirrored, __m128i (&channels)[3]) {
  const __m128i reverse = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const auto* source = reinterpret_cast<const __m128i*>(pixels);
  const __m128i bytes[3] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1), _mm_loadu_si128(source + 2)};
  for (int c = 0; c < 3; ++c) {
    __m128i values = _mm_setzero_si128();
    for (int v = 0; v < 3; ++v) {
      const auto shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(kShuffles.from[c][v]));
      values = _mm_or_si128(values, _mm_shuffle_epi8(bytes[v], shuffle));
    }
    channels[c] = mirrored ? _mm_shuffle_epi8(values, reverse) : values;
  }
}

// How many columns of a row of three channels were written.
__attribute__((target("avx2"))) int64_t floats_avx2(const uint8_t* row, int64_t width, bool mirrored,
                                                    const PlaneScale& scale, int64_t area, float* out) {
  int64_t x = 0;
  for (; x + 16 <= width; x += 16) {
    float* const place = out + (mirrored ? width - 16 - x : x);
    __m128i channels[3];
    split(row + 3 * x, mirrored, channels);
    for (int c = 0; c < 3; ++c) {
      const __m256 slope = _mm256_set1_ps(scale.slope[c]), offset = _mm256_set1_ps(scale.offset[c]);
      const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(channels[c]));
      const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(channels[c], 8)));
      _mm256_storeu_ps(place + c * area, _mm256_add_ps(_mm256_mul_ps(low, slope), offset));
      _mm256_storeu_ps(place + c * area + 8, _mm256_add_ps(_mm256_mul_ps(high, slope), offset));
    }
  }
  return x;
}

__attribute__((target("avx2"))) int64_t bytes_avx2(const uint8_t* row, int64_t width, bool mirrored, uint8_t most,
                                                   int64_t area, uint8_t* out) {
  const __m128i limit = _mm_set1_epi8(static_cast<char>(most));
  int64_t x = 0;
  for (; x + 16 <= width; x += 16) {
    uint8_t* const place = out + (mirrored ? width - 16 - x : x);
    __m128i channels[3];
    split(row + 3 * x, mirrored, channels);
    for (int c = 0; c < 3; ++c) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(place + c * area), _mm_min_epu8(channels[c], limit));
    }
  }
  return x;
}

bool has_avx2() {
  static const bool answer = __builtin_cpu_supports("avx2");
  return answer;
}

#else

bool has_avx2() { return false; }
int64_t floats_avx2(const uint8_t*, int64_t, bool, const PlaneScale&, int64_t, float*) { return 0; }
int64_t bytes_avx2(const uint8_t*, int64_t, bool, uint8_t, int64_t, uint8_t*) { return 0; }

#endif

}  // namespace

void write_float_row(const uint8_t* row, int64_t width, int64_t channels, bool mirrored, const PlaneScale& scale,
                     int64_t area, float* out) {
  const int64_t begin = channels == 3 && has_avx2() ? floats_avx2(row, width, mirrored, scale, area, out) : 0;
  for (int64_t c = 0; c < channels; ++c) {
    const float slope = scale.slope[c], offset = scale.offset[c];
    write_row(row + c, channels, begin, width, mirrored, out + c * area,
              [=](uint8_t value) { return static_cast<float>(value) * slope + offset; });
  }
}

void write_byte_row(const uint8_t* row, int64_t width, int64_t channels, bool mirrored, uint8_t most, int64_t area,
                    uint8_t* out) {
  const int64_t begin = channels == 3 && has_avx2() ? bytes_avx2(row, width, mirrored, most, area, out) : 0;
  for (int64_t c = 0; c < channels; ++c) {
    write_row(row + c, channels, begin, width, mirrored, out + c * area,
              [=](uint8_t value) { return std::min(value, most); });
  }
}

}  // namespace mx::io
