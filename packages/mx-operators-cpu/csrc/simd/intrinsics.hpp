// SPDX-License-Identifier: Apache-2.0
//
// What needs intrinsics: conversions of float16, stores past the caches.  Included by
// each instruction set's translation unit, inside its own namespace; MX_VECTOR is its width.

#if MX_VECTOR == 512
inline size_t load_half_vectors(float* out, const Float16* in, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    _mm512_storeu_ps(out + i, _mm512_cvtph_ps(x));
  }
  return i;
}
inline size_t store_half_vectors(Float16* out, const float* in, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i y = _mm512_cvtps_ph(_mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), y);
  }
  return i;
}
#elif MX_VECTOR == 256
inline size_t load_half_vectors(float* out, const Float16* in, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(x));
  }
  return i;
}
inline size_t store_half_vectors(Float16* out, const float* in, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i y = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), y);
  }
  return i;
}
#elif defined(__x86_64__)
// Four halves in the upper bits of their lanes, as floats. `special`: the exponent's bits where one is not finite.
inline __m128 floats_of_halves(__m128i upper, __m128i special) {
  const __m128i places = _mm_and_si128(_mm_srai_epi32(upper, 3), _mm_set1_epi32(static_cast<int>(0x8fffe000u)));
  const __m128 finite = _mm_mul_ps(_mm_castsi128_ps(places), _mm_set1_ps(0x1p112f));  // from bias 15 to 127
  return _mm_or_ps(finite, _mm_castsi128_ps(special));
}
inline size_t load_half_vectors(float* out, const Float16* in, size_t n) {
  const __m128i zero = _mm_setzero_si128(), largest = _mm_set1_epi16(0x7c00);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    const __m128i infinite = _mm_cmpeq_epi16(_mm_and_si128(x, largest), largest);
    const __m128i special = _mm_and_si128(infinite, _mm_set1_epi16(0x7f80));
    _mm_storeu_ps(out + i, floats_of_halves(_mm_unpacklo_epi16(zero, x), _mm_unpacklo_epi16(zero, special)));
    _mm_storeu_ps(out + i + 4, floats_of_halves(_mm_unpackhi_epi16(zero, x), _mm_unpackhi_epi16(zero, special)));
  }
  return i;
}
// The magnitudes of four floats as halves, in the lower bits of their lanes; those of NaN are infinite. Adding a power
// of two whose last place is that of the half rounds to it; below 2^-14 all halves have the same.
inline __m128i halves_of_magnitudes(__m128i bits) {
  const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
  const __m128i bounded = _mm_min_epi32(magnitude, _mm_set1_epi32(0x47800000));  // 2^16, infinite as a half
  const __m128i exponent = _mm_max_epi32(_mm_and_si128(bounded, _mm_set1_epi32(0x7f800000)), _mm_set1_epi32(113 << 23));
  const __m128i power = _mm_add_epi32(exponent, _mm_set1_epi32(13 << 23));
  const __m128i sum = _mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(bounded), _mm_castsi128_ps(power)));
  const __m128i moved = _mm_srli_epi32(_mm_sub_epi32(exponent, _mm_set1_epi32(113 << 23)), 13);
  return _mm_add_epi32(_mm_sub_epi32(sum, power), moved);
}
inline size_t store_half_vectors(Float16* out, const float* in, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128 x = _mm_loadu_ps(in + i), y = _mm_loadu_ps(in + i + 4);
    const __m128i a = _mm_castps_si128(x), b = _mm_castps_si128(y);
    const __m128i magnitudes = _mm_packus_epi32(halves_of_magnitudes(a), halves_of_magnitudes(b));
    const __m128i signs = _mm_packs_epi32(_mm_srai_epi32(a, 16), _mm_srai_epi32(b, 16));
    const __m128i nans = _mm_packs_epi32(_mm_castps_si128(_mm_cmpunord_ps(x, x)),
                                         _mm_castps_si128(_mm_cmpunord_ps(y, y)));
    const __m128i marks = _mm_or_si128(_mm_and_si128(signs, _mm_set1_epi16(static_cast<short>(0x8000))),
                                       _mm_and_si128(nans, _mm_set1_epi16(0x0200)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_or_si128(magnitudes, marks));
  }
  return i;
}
#else
inline size_t load_half_vectors(float*, const Float16*, size_t) { return 0; }
inline size_t store_half_vectors(Float16*, const float*, size_t) { return 0; }
#endif

// 64 aligned bytes, past the caches.
inline void stream_line(void* out, const void* in) {
#if MX_VECTOR == 512
  _mm512_stream_si512(static_cast<__m512i*>(out), _mm512_loadu_si512(in));
#elif MX_VECTOR == 256
  for (size_t k = 0; k < 2; ++k)
    _mm256_stream_si256(static_cast<__m256i*>(out) + k,
                        _mm256_loadu_si256(static_cast<const __m256i*>(in) + k));
#elif defined(__x86_64__)
  for (size_t k = 0; k < 4; ++k)
    _mm_stream_si128(static_cast<__m128i*>(out) + k,
                     _mm_loadu_si128(static_cast<const __m128i*>(in) + k));
#else
  std::memcpy(out, in, 64);
#endif
}

void stream(void* out, const void* in, size_t bytes) {
  auto* o = static_cast<char*>(out);
  auto* x = static_cast<const char*>(in);
  size_t i = (64 - (reinterpret_cast<uintptr_t>(o) & 63)) & 63;
  i = i < bytes ? i : bytes;
  if (i != 0) std::memcpy(o, x, i);
  for (; i + 64 <= bytes; i += 64) stream_line(o + i, x + i);
  if (i < bytes) std::memcpy(o + i, x + i, bytes - i);
}
