// SPDX-License-Identifier: Apache-2.0
#include "planes.hpp"

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

// Sixteen pixels at a time; returns the number of columns written.
__attribute__((target("avx2"))) int64_t write_three_avx2(const uint8_t* row, int64_t width, bool mirrored,
                                                             const PlaneScale& scale, float* const (&planes)[3]) {
  const __m128i reverse = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  int64_t x = 0;
  for (; x + 16 <= width; x += 16) {
    const auto* source = reinterpret_cast<const __m128i*>(row + 3 * x);
    const __m128i bytes[3] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1), _mm_loadu_si128(source + 2)};
    const int64_t place = mirrored ? width - 16 - x : x;
    for (int c = 0; c < 3; ++c) {
      __m128i values = _mm_setzero_si128();
      for (int v = 0; v < 3; ++v) {
        const auto shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(kShuffles.from[c][v]));
        values = _mm_or_si128(values, _mm_shuffle_epi8(bytes[v], shuffle));
      }
      if (mirrored) values = _mm_shuffle_epi8(values, reverse);
      const __m256 slope = _mm256_set1_ps(scale.slope[c]), offset = _mm256_set1_ps(scale.offset[c]);
      const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(values));
      const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(values, 8)));
      _mm256_storeu_ps(planes[c] + place, _mm256_add_ps(_mm256_mul_ps(low, slope), offset));
      _mm256_storeu_ps(planes[c] + place + 8, _mm256_add_ps(_mm256_mul_ps(high, slope), offset));
    }
  }
  return x;
}

bool has_avx2() {
  static const bool answer = __builtin_cpu_supports("avx2");
  return answer;
}

#endif

int64_t write_three(const uint8_t* row, int64_t width, bool mirrored, const PlaneScale& scale,
                    float* const (&planes)[3]) {
#if defined(__x86_64__)
  if (has_avx2()) return write_three_avx2(row, width, mirrored, scale, planes);
#endif
  (void)row, (void)width, (void)mirrored, (void)scale, (void)planes;
  return 0;
}

}  // namespace

void write_float_planes(const ImageView& image, bool mirrored, const PlaneScale& scale, float* out) {
  const int64_t area = image.height * image.width;
  for (int64_t y = 0; y < image.height; ++y) {
    float* target = out + y * image.width;
    int64_t begin = 0;
    if (image.channels == 3) {
      float* const planes[3] = {target, target + area, target + 2 * area};
      begin = write_three(image.row(y), image.width, mirrored, scale, planes);
    }
    for (int64_t c = 0; c < image.channels; ++c) {
      const float slope = scale.slope[c], offset = scale.offset[c];
      write_row(image.row(y) + c, image.channels, begin, image.width, mirrored, target + c * area,
                [=](uint8_t value) { return static_cast<float>(value) * slope + offset; });
    }
  }
}

void write_byte_planes(const ImageView& image, bool mirrored, uint8_t* out) {
  const int64_t area = image.height * image.width;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t c = 0; c < image.channels; ++c) {
      write_row(image.row(y) + c, image.channels, 0, image.width, mirrored, out + c * area + y * image.width,
                [](uint8_t value) { return value; });
    }
  }
}

}  // namespace mx::io
