// SPDX-License-Identifier: Apache-2.0
//
// What needs intrinsics: float16 by hardware conversion, stores past the caches.  Included by
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
