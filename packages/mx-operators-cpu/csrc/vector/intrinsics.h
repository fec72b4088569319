// SPDX-License-Identifier: Apache-2.0
//
// What needs intrinsics: float16 by hardware conversion, stores past the caches.  Included by
// each instruction set's translation unit, inside its own namespace; MX_VECTOR is its width.

#if MX_VECTOR == 512
inline size_t load_half_vectors(float* out, const Half* in, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
    _mm512_storeu_ps(out + i, _mm512_cvtph_ps(x));
  }
  return i;
}
inline size_t store_half_vectors(Half* out, const float* in, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i y = _mm512_cvtps_ph(_mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), y);
  }
  return i;
}
#elif MX_VECTOR == 256
inline size_t load_half_vectors(float* out, const Half* in, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(x));
  }
  return i;
}
inline size_t store_half_vectors(Half* out, const float* in, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i y = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), y);
  }
  return i;
}
#else
inline size_t load_half_vectors(float*, const Half*, size_t) { return 0; }
inline size_t store_half_vectors(Half*, const float*, size_t) { return 0; }
#endif

void stream(void* out, const void* in, size_t bytes) {
  auto* o = static_cast<char*>(out);
  auto* x = static_cast<const char*>(in);
#if defined(__x86_64__)
  size_t head = (64 - (reinterpret_cast<uintptr_t>(o) & 63)) & 63;
  head = head < bytes ? head : bytes;
  std::memcpy(o, x, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64) {
#if MX_VECTOR == 512
    _mm512_stream_si512(reinterpret_cast<__m512i*>(o + i), _mm512_loadu_si512(x + i));
#elif MX_VECTOR == 256
    for (size_t k = 0; k < 64; k += 32)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(o + i + k),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i + k)));
#else
    for (size_t k = 0; k < 64; k += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(o + i + k),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i + k)));
#endif
  }
  std::memcpy(o + i, x + i, bytes - i);
#else
  std::memcpy(o, x, bytes);
#endif
}
