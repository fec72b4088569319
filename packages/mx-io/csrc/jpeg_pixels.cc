// SPDX-License-Identifier: Apache-2.0
#include "jpeg_pixels.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define MX_AVX2 __attribute__((target("avx2")))
#endif

namespace mx::io::jpeg {

#if defined(__x86_64__)

namespace {

// Factors of the transform, 13 bits of fraction, as rounded for the algorithm of Loeffler, Ligtenberg and Moschytz
// (ICASSP 1989): pairs for two coefficients.
MX_AVX2 inline __m256i pair(int first, int second) {
  const uint32_t low = static_cast<uint32_t>(first) & 0xFFFF, high = static_cast<uint32_t>(second) << 16;
  return _mm256_set1_epi32(static_cast<int>(high | low));
}

struct Wide {
  __m256i low, high;
};

MX_AVX2 inline Wide both(__m256i a, __m256i b) { return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)}; }
MX_AVX2 inline Wide times(Wide x, __m256i factors) {
  return {_mm256_madd_epi16(x.low, factors), _mm256_madd_epi16(x.high, factors)};
}
MX_AVX2 inline Wide plus(Wide a, Wide b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
MX_AVX2 inline Wide minus(Wide a, Wide b) { return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)}; }

template <int kShift>
MX_AVX2 inline __m256i rounded(Wide x) {
  const __m256i half = _mm256_set1_epi32(1 << (kShift - 1));
  return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(x.low, half), kShift),
                            _mm256_srai_epi32(_mm256_add_epi32(x.high, half), kShift));
}

// Of 16 bits, times 8192.
MX_AVX2 inline Wide raised(__m256i x) {
  const Wide top = both(_mm256_setzero_si256(), x);
  return {_mm256_srai_epi32(top.low, 3), _mm256_srai_epi32(top.high, 3)};
}

// Eight values in each of sixteen lanes.  Sums of two values wrap around where libjpeg-turbo's do: only damaged files
// have values so large, and their pixels are libjpeg-turbo's too.
template <int kShift>
MX_AVX2 inline void transform_lanes(__m256i (&v)[8]) {
  const Wide v26 = both(v[2], v[6]), v17 = both(v[1], v[7]), v35 = both(v[3], v[5]);
  const Wide sums = both(_mm256_add_epi16(v[3], v[7]), _mm256_add_epi16(v[1], v[5]));
  const Wide sum = raised(_mm256_add_epi16(v[0], v[4])), difference = raised(_mm256_sub_epi16(v[0], v[4]));
  const Wide less = times(v26, pair(4433, -10704)), more = times(v26, pair(10703, 4433));
  const Wide even[4] = {plus(sum, more), plus(difference, less), minus(difference, less), minus(sum, more)};
  const Wide of_37 = times(sums, pair(-6436, 9633)), of_15 = times(sums, pair(9633, 6437));
  const Wide odd[4] = {
      plus(times(v17, pair(4926, -7373)), of_15),
      plus(times(v35, pair(4177, -20995)), of_37),
      plus(times(v35, pair(-20995, -4176)), of_15),
      plus(times(v17, pair(-7373, -4927)), of_37),
  };
  for (int i = 0; i < 4; ++i) {
    v[i] = rounded<kShift>(plus(even[i], odd[i]));
    v[7 - i] = rounded<kShift>(minus(even[i], odd[i]));
  }
}

// Rows and columns change places in each half.
MX_AVX2 inline void transpose(__m256i (&v)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      b[4 * i + 2 * j] = _mm256_unpacklo_epi32(a[4 * i + j], a[4 * i + 2 + j]);
      b[4 * i + 2 * j + 1] = _mm256_unpackhi_epi32(a[4 * i + j], a[4 * i + 2 + j]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = _mm256_unpacklo_epi64(b[i], b[4 + i]);
    v[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[4 + i]);
  }
}

MX_AVX2 inline void store_two_rows(__m128i rows, BlockTarget to, int row) {
  uint8_t* const first = to.pixels + row * to.row_bytes;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(first), rows);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(first + to.row_bytes), _mm_unpackhi_epi64(rows, rows));
}

MX_AVX2 inline __m256i sixteen(const uint8_t* bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
MX_AVX2 inline __m256i load(const int16_t* values) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
}
MX_AVX2 inline void store(int16_t* to, __m256i values) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), values); }

// (value * factor + half) >> 16, for values of 9 bits and a factor below half of 1.
MX_AVX2 inline __m256i share(__m256i values, int factor) {
  const __m256i factors = _mm256_set1_epi16(static_cast<int16_t>(factor));
  const __m256i doubled = _mm256_mulhi_epi16(_mm256_slli_epi16(values, 1), factors);
  return _mm256_srai_epi16(_mm256_add_epi16(doubled, _mm256_set1_epi16(1)), 1);
}

// Sixteen values of a channel, in order.
MX_AVX2 inline __m128i bytes_of(__m256i values) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(values, values), 0xD8);
  return _mm256_castsi256_si128(packed);
}

// Byte j of 48 interleaved ones is value j / 3 of channel j % 3.
struct WeaveTable {
  alignas(16) int8_t from[3][3][16];  // vector, channel
};

constexpr WeaveTable make_weave() {
  WeaveTable table{};
  for (int j = 0; j < 48; ++j) {
    for (int channel = 0; channel < 3; ++channel) {
      table.from[j / 16][channel][j % 16] = static_cast<int8_t>(j % 3 == channel ? j / 3 : -1);
    }
  }
  return table;
}

constexpr WeaveTable kWeave = make_weave();

template <int kShift>
MX_AVX2 void triangle(const int16_t* values, int64_t count, int16_t* out) {
  constexpr int kLeft = kShift == 4 ? 8 : 1, kRight = kShift == 4 ? 7 : 2;
  const __m256i left = _mm256_set1_epi16(kLeft), right = _mm256_set1_epi16(kRight), middle = _mm256_set1_epi16(128);
  for (int64_t i = 0; i < count; i += 16) {
    const __m256i own = load(values + i);
    const __m256i three = _mm256_add_epi16(own, _mm256_add_epi16(own, own));
    const __m256i before = _mm256_add_epi16(_mm256_add_epi16(three, load(values + i - 1)), left);
    const __m256i after = _mm256_add_epi16(_mm256_add_epi16(three, load(values + i + 1)), right);
    const __m256i even = _mm256_sub_epi16(_mm256_srli_epi16(before, kShift), middle);
    const __m256i odd = _mm256_sub_epi16(_mm256_srli_epi16(after, kShift), middle);
    const __m256i low = _mm256_unpacklo_epi16(even, odd), high = _mm256_unpackhi_epi16(even, odd);
    store(out + 2 * i, _mm256_permute2x128_si256(low, high, 0x20));
    store(out + 2 * i + 16, _mm256_permute2x128_si256(low, high, 0x31));
  }
}

}  // namespace

bool has_pixels() {
  static const bool answer = __builtin_cpu_supports("avx2");
  return answer;
}

namespace {

MX_AVX2 inline __m256i two_rows(const int16_t* a, const int16_t* b) {
  const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(a));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_load_si128(reinterpret_cast<const __m128i*>(b)), 1);
}

}  // namespace

namespace {

MX_AVX2 inline __m256i row_of_two(const int16_t* a, const int16_t* b, BlockTarget to_a, BlockTarget to_b, int i) {
  return _mm256_mullo_epi16(two_rows(a + 8 * i, b + 8 * i), two_rows(to_a.steps + 8 * i, to_b.steps + 8 * i));
}

// Whether all rows of a block but the first are zero.
MX_AVX2 bool one_row(const int16_t* block) {
  __m128i any = _mm_setzero_si128();
  for (int i = 1; i < 8; ++i) any = _mm_or_si128(any, _mm_load_si128(reinterpret_cast<const __m128i*>(block + 8 * i)));
  return _mm_testz_si128(any, any) != 0;
}

// Whether a value is lost when four times it is taken for 16 bits.
MX_AVX2 inline bool too_large(__m256i values) {
  const __m256i beyond = _mm256_add_epi16(values, _mm256_set1_epi16(0x2000));
  return _mm256_testz_si256(beyond, _mm256_set1_epi16(static_cast<int16_t>(0xC000))) == 0;
}

// Columns of which only the first row has values, as libjpeg-turbo transforms them: it shifts without a limit.
MX_AVX2 void shift_first_rows(const int16_t* a, const int16_t* b, BlockTarget to_a, BlockTarget to_b,
                              __m256i (&v)[8]) {
  const __m256i first = row_of_two(a, b, to_a, to_b, 0);
  const __m256i halves = _mm256_set_m128i(_mm_set1_epi8(one_row(b) ? -1 : 0), _mm_set1_epi8(one_row(a) ? -1 : 0));
  for (__m256i& row : v) row = _mm256_blendv_epi8(row, _mm256_slli_epi16(first, 2), halves);
}

}  // namespace

MX_AVX2 void transform_two(const int16_t* a, const int16_t* b, BlockTarget to_a, BlockTarget to_b) {
  __m256i v[8];
  for (int i = 0; i < 8; ++i) v[i] = row_of_two(a, b, to_a, to_b, i);
  const bool beyond = too_large(v[0]);
  transform_lanes<11>(v);
  if (beyond) shift_first_rows(a, b, to_a, to_b, v);
  transpose(v);
  transform_lanes<18>(v);
  transpose(v);
  for (int i = 0; i < 8; i += 2) {
    const __m256i rows = _mm256_xor_si256(_mm256_packs_epi16(v[i], v[i + 1]), _mm256_set1_epi8(-128));
    store_two_rows(_mm256_castsi256_si128(rows), to_a, i);
    store_two_rows(_mm256_extracti128_si256(rows, 1), to_b, i);
  }
}

MX_AVX2 void double_row(const uint8_t* near, const uint8_t* far, int64_t begin, int64_t end, int64_t count,
                        std::vector<int16_t>& scratch, int16_t* out) {
  const int64_t wanted = end - begin;
  scratch.resize(static_cast<size_t>(wanted + 64));
  int16_t* const values = scratch.data() + 16;
  const auto value = [=](int64_t i) {
    return static_cast<int16_t>(far == nullptr ? near[i] : 3 * near[i] + far[i]);
  };
  for (int64_t i = 0; i < wanted; i += 16) {
    __m256i own = sixteen(near + begin + i);
    if (far != nullptr) {
      own = _mm256_add_epi16(_mm256_add_epi16(own, _mm256_add_epi16(own, own)), sixteen(far + begin + i));
    }
    store(values + i, own);
  }
  values[-1] = value(std::max<int64_t>(begin - 1, 0));
  values[wanted] = value(std::min(end, count - 1));
  far == nullptr ? triangle<2>(values, wanted, out) : triangle<4>(values, wanted, out);
}

MX_AVX2 void centre_row(const uint8_t* samples, int64_t count, int16_t* out) {
  for (int64_t i = 0; i < count; i += 16) {
    store(out + i, _mm256_sub_epi16(sixteen(samples + i), _mm256_set1_epi16(128)));
  }
}

MX_AVX2 void colour_row(const uint8_t* luma, const int16_t* blue, const int16_t* red, int64_t width, uint8_t* out) {
  const __m256i half = _mm256_set1_epi32(1 << 15);
  for (int64_t x = 0; x < width; x += 16) {
    const __m256i y = sixteen(luma + x), b = load(blue + x), r = load(red + x);
    // 1.402 red; 1.772 blue; 0.34414 blue + 0.71414 red
    const __m256i to_red = _mm256_add_epi16(r, share(r, 26345));
    const __m256i to_blue = _mm256_add_epi16(_mm256_add_epi16(b, b), share(b, -14942));
    const __m256i factors = pair(-22554, 18734);
    const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(b, r), factors);
    const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(b, r), factors);
    const __m256i mixed = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                                             _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
    const __m128i channels[3] = {bytes_of(_mm256_add_epi16(y, to_red)),
                                 bytes_of(_mm256_add_epi16(y, _mm256_sub_epi16(mixed, r))),
                                 bytes_of(_mm256_add_epi16(y, to_blue))};
    alignas(16) uint8_t last[48];
    const bool whole = x + 16 <= width;
    uint8_t* const target = whole ? out + 3 * x : last;
    for (int v = 0; v < 3; ++v) {
      __m128i woven = _mm_setzero_si128();
      for (int c = 0; c < 3; ++c) {
        const auto from = _mm_load_si128(reinterpret_cast<const __m128i*>(kWeave.from[v][c]));
        woven = _mm_or_si128(woven, _mm_shuffle_epi8(channels[c], from));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + 16 * v), woven);
    }
    if (!whole) std::memcpy(out + 3 * x, last, static_cast<size_t>(3 * (width - x)));
  }
}

#else

bool has_pixels() { return false; }
void transform_two(const int16_t*, const int16_t*, BlockTarget, BlockTarget) {}
void double_row(const uint8_t*, const uint8_t*, int64_t, int64_t, int64_t, std::vector<int16_t>&, int16_t*) {}
void centre_row(const uint8_t*, int64_t, int16_t*) {}
void colour_row(const uint8_t*, const int16_t*, const int16_t*, int64_t, uint8_t*) {}

#endif

void transform_flat(int16_t coefficient, BlockTarget to) {
  const auto raised = static_cast<int16_t>(static_cast<uint32_t>(coefficient * to.steps[0]) << 2);  // as above
  const int value = std::clamp(((raised + 16) >> 5) + 128, 0, 255);
  for (int row = 0; row < 8; ++row) std::memset(to.pixels + row * to.row_bytes, value, 8);
}

}  // namespace mx::io::jpeg
