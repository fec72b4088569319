// SPDX-License-Identifier: Apache-2.0
//
// Pixels of 8 bits between their neighbours, in 16 bits.  Included by each instruction set's translation
// unit, inside its own namespace.

MX_INLINE int16_t mixed_pixel(const uint8_t* pair, uint32_t weights, size_t channels) {
  return static_cast<int16_t>((static_cast<int32_t>(weights & 0xffff) * pair[0] +
                               static_cast<int32_t>(weights >> 16) * pair[channels]) >> 4);
}

void mix_pixels(int16_t* to, const uint8_t* from, const int32_t* places, const uint32_t* weights, size_t channels,
                size_t n) {
#if defined(__x86_64__)
  if (channels == 3 || channels == 4) {
    // The channels of both pixels side by side, as products of pairs take them.
    const __m128i order = channels == 3 ? _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)
                                        : _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
    for (size_t i = 0; i < n; ++i, to += channels) {
      const __m128i pair = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + places[i]));
      const __m128i sums = _mm_madd_epi16(_mm_shuffle_epi8(pair, order), _mm_set1_epi32(static_cast<int>(weights[i])));
      const __m128i kept = _mm_srai_epi32(sums, 4);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(kept, kept));
    }
    return;
  }
#endif
  for (size_t i = 0; i < n; ++i)
    for (size_t c = 0; c < channels; ++c) *to++ = mixed_pixel(from + places[i] + c, weights[i], channels);
}

void mix_rows(uint8_t* to, const int16_t* above, const int16_t* below, int16_t weight_above, int16_t weight_below,
              size_t n) {
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const auto upper = static_cast<int16_t>((above[i] * weight_above) >> 16);
    const auto lower = static_cast<int16_t>((below[i] * weight_below) >> 16);
    const auto x = static_cast<int16_t>(static_cast<int16_t>(upper + lower + 2) >> 2);
    to[i] = static_cast<uint8_t>(x < 255 ? x : 255);
  }
}

void reverse_triples(void* out, const void* in, size_t n) {
  auto* to = static_cast<char*>(out);
  const char* end = static_cast<const char*>(in) + 3 * n;
  size_t i = 0;
#if defined(__x86_64__)
  // Five at once; a byte too many is written over by the next.
  const __m128i order = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
  for (; i + 6 <= n; i += 5) {
    const __m128i five = _mm_loadu_si128(reinterpret_cast<const __m128i*>(end - 3 * i - 16));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * i), _mm_shuffle_epi8(five, order));
  }
#endif
  for (; i < n; ++i) std::memcpy(to + 3 * i, end - 3 * (i + 1), 3);
}
