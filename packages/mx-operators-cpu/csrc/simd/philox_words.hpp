// SPDX-License-Identifier: Apache-2.0
//
// Many blocks of Philox side by side, the numbers of mx_core/philox.hpp, and what is made of the
// words.  Included by each instruction set's translation unit, inside its own namespace.

constexpr size_t kPhiloxLanes = 16;
constexpr uint32_t kPhiloxM0 = 0xD2511F53u, kPhiloxM1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxW0 = 0x9E3779B9u, kPhiloxW1 = 0xBB67AE85u;

#if MX_VECTOR == 512
struct WordLanes {
  __m512i v;
};
inline WordLanes load_words(const uint32_t* from) { return {_mm512_loadu_si512(from)}; }
inline WordLanes all_words(uint32_t word) { return {_mm512_set1_epi32(static_cast<int>(word))}; }
inline WordLanes exclusive_or(WordLanes a, WordLanes b, WordLanes c) {
  return {_mm512_ternarylogic_epi32(a.v, b.v, c.v, 0x96)};
}
// low and high halves of a * m
inline void multiply_words(WordLanes a, uint32_t m, WordLanes& low, WordLanes& high) {
  const __m512i factor = _mm512_set1_epi64(m);
  const __m512i even = _mm512_mul_epu32(a.v, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), factor);
  low.v = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
  high.v = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}
// The four words of each counter side by side.
inline void store_blocks(uint32_t* to, const WordLanes (&c)[4]) {
  const __m512i a = _mm512_unpacklo_epi32(c[0].v, c[1].v), b = _mm512_unpackhi_epi32(c[0].v, c[1].v);
  const __m512i d = _mm512_unpacklo_epi32(c[2].v, c[3].v), e = _mm512_unpackhi_epi32(c[2].v, c[3].v);
  const __m512i r0 = _mm512_unpacklo_epi64(a, d), r1 = _mm512_unpackhi_epi64(a, d);
  const __m512i r2 = _mm512_unpacklo_epi64(b, e), r3 = _mm512_unpackhi_epi64(b, e);
  const __m512i s = _mm512_shuffle_i32x4(r0, r1, 0x88), t = _mm512_shuffle_i32x4(r0, r1, 0xdd);
  const __m512i u = _mm512_shuffle_i32x4(r2, r3, 0x88), v = _mm512_shuffle_i32x4(r2, r3, 0xdd);
  _mm512_storeu_si512(to, _mm512_shuffle_i32x4(s, u, 0x88));
  _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(t, v, 0x88));
  _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(s, u, 0xdd));
  _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(t, v, 0xdd));
}
#elif MX_VECTOR == 256
struct WordLanes {
  __m256i v[2];
};
inline WordLanes load_words(const uint32_t* from) {
  return {{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8))}};
}
inline WordLanes all_words(uint32_t word) {
  const __m256i v = _mm256_set1_epi32(static_cast<int>(word));
  return {{v, v}};
}
inline WordLanes exclusive_or(WordLanes a, WordLanes b, WordLanes c) {
  for (int k = 0; k < 2; ++k) a.v[k] = _mm256_xor_si256(_mm256_xor_si256(a.v[k], b.v[k]), c.v[k]);
  return a;
}
inline void multiply_words(WordLanes a, uint32_t m, WordLanes& low, WordLanes& high) {
  const __m256i factor = _mm256_set1_epi64x(m);
  for (int k = 0; k < 2; ++k) {
    const __m256i even = _mm256_mul_epu32(a.v[k], factor);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a.v[k], 32), factor);
    low.v[k] = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    high.v[k] = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  }
}
inline void store_blocks(uint32_t* to, const WordLanes (&c)[4]) {
  for (int k = 0; k < 2; ++k) {
    const __m256i a = _mm256_unpacklo_epi32(c[0].v[k], c[1].v[k]), b = _mm256_unpackhi_epi32(c[0].v[k], c[1].v[k]);
    const __m256i d = _mm256_unpacklo_epi32(c[2].v[k], c[3].v[k]), e = _mm256_unpackhi_epi32(c[2].v[k], c[3].v[k]);
    const __m256i r[4] = {_mm256_unpacklo_epi64(a, d), _mm256_unpackhi_epi64(a, d), _mm256_unpacklo_epi64(b, e),
                          _mm256_unpackhi_epi64(b, e)};
    auto* out = reinterpret_cast<__m256i*>(to + 32 * k);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(r[0], r[1], 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(r[2], r[3], 0x20));
    _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(r[0], r[1], 0x31));
    _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(r[2], r[3], 0x31));
  }
}
#else
struct WordLanes {
  uint32_t v[kPhiloxLanes];
};
inline WordLanes load_words(const uint32_t* from) {
  WordLanes a;
  std::memcpy(a.v, from, sizeof a.v);
  return a;
}
inline WordLanes all_words(uint32_t word) {
  WordLanes a;
  for (uint32_t& lane : a.v) lane = word;
  return a;
}
inline WordLanes exclusive_or(WordLanes a, WordLanes b, WordLanes c) {
  for (size_t i = 0; i < kPhiloxLanes; ++i) a.v[i] ^= b.v[i] ^ c.v[i];
  return a;
}
inline void multiply_words(WordLanes a, uint32_t m, WordLanes& low, WordLanes& high) {
  for (size_t i = 0; i < kPhiloxLanes; ++i) {
    const uint64_t product = uint64_t{m} * a.v[i];
    low.v[i] = static_cast<uint32_t>(product);
    high.v[i] = static_cast<uint32_t>(product >> 32);
  }
}
inline void store_blocks(uint32_t* to, const WordLanes (&c)[4]) {
  for (size_t i = 0; i < kPhiloxLanes; ++i)
    for (size_t k = 0; k < 4; ++k) to[4 * i + k] = c[k].v[i];
}
#endif

// Four words for each of kPhiloxLanes counters.
inline void philox_lanes(uint32_t* out, uint64_t key, uint64_t counter, uint64_t branch) {
  uint32_t low[kPhiloxLanes], high[kPhiloxLanes];
  for (size_t i = 0; i < kPhiloxLanes; ++i) {
    low[i] = static_cast<uint32_t>(counter + i);
    high[i] = static_cast<uint32_t>((counter + i) >> 32);
  }
  WordLanes c[4] = {load_words(low), load_words(high), all_words(static_cast<uint32_t>(branch)),
                    all_words(static_cast<uint32_t>(branch >> 32))};
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += kPhiloxW0, k1 += kPhiloxW1) {
    WordLanes a_low, a_high, b_low, b_high;
    multiply_words(c[0], kPhiloxM0, a_low, a_high);
    multiply_words(c[2], kPhiloxM1, b_low, b_high);
    c[0] = exclusive_or(b_high, c[1], all_words(k0));
    c[2] = exclusive_or(a_high, c[3], all_words(k1));
    c[1] = b_low;
    c[3] = a_low;
  }
  store_blocks(out, c);
}

void philox_words(uint32_t* out, uint64_t key, uint64_t counter, uint64_t branch, size_t n) {
  size_t start = 0;
  for (; start + kPhiloxLanes <= n; start += kPhiloxLanes) philox_lanes(out + 4 * start, key, counter + start, branch);
  if (start == n) return;
  uint32_t rest[4 * kPhiloxLanes];
  philox_lanes(rest, key, counter + start, branch);
  std::memcpy(out + 4 * start, rest, (n - start) * 4 * sizeof(uint32_t));
}

// ---- numbers from words ----

// low + span * uniform32(word)
void uniform_numbers(float* out, const uint32_t* words, float low, float span, size_t n) {
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 5.9604644775390625e-08f * span + low;
}

// `kept` where the 24 upper bits of a word are at least `threshold`, else 0.
void keep_numbers(float* out, const uint32_t* words, uint32_t threshold, float kept, size_t n) {
  MX_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    out[i] = static_cast<int32_t>(words[i] >> 8) >= static_cast<int32_t>(threshold) ? kept : 0.0f;
}

// Box and Muller: two numbers of two words, for n pairs.  The angle is an integer fraction of a
// turn, so that its reduction to an eighth is exact.
void normal_numbers(float* out, const uint32_t* words, size_t n) {
  constexpr size_t kSome = 128;
  float radius[kSome], cosine[kSome], sine[kSome];
  int32_t upper[kSome], lower[kSome], turn[kSome];
  for (size_t start = 0; start < n; start += kSome, words += 2 * kSome, out += 2 * kSome) {
    const size_t some = n - start < kSome ? n - start : kSome;
    for (size_t j = 0; j < some; ++j) {  // conversions of signed integers are in every instruction set
      upper[j] = static_cast<int32_t>(words[2 * j] >> 16);
      lower[j] = static_cast<int32_t>(words[2 * j] & 0xffffu);
      turn[j] = static_cast<int32_t>(words[2 * j + 1] >> 8);
    }
    for (size_t j = some; j < kSome; ++j) upper[j] = lower[j] = turn[j] = 0;
    for (size_t j = 0; j < kSome; ++j) {
      const float word = static_cast<float>(upper[j]) * 65536.0f + static_cast<float>(lower[j]);
      const Logarithm l = split_log(word * 0x1p-32f + 0x1p-33f);
      const float logarithm = (l.fraction + l.exponent * 1.42860677e-06f) + l.exponent * 0.693145752f;
      radius[j] = __builtin_sqrtf(-2.0f * logarithm);
    }
    for (size_t j = 0; j < kSome; ++j) {
      const int32_t quadrant = (turn[j] + (1 << 21)) >> 22;
      const float t = static_cast<float>(turn[j] - (quadrant << 22)) * 3.7450703e-07f;  // 2 pi / 2^24
      const float z = t * t;
      const float s = ((-1.95152959e-4f * z + 8.33216087e-3f) * z - 1.66666546e-1f) * z * t + t;
      const float c = ((2.44331571e-5f * z - 1.38873163e-3f) * z + 4.16666456e-2f) * z * z - 0.5f * z + 1.0f;
      const bool odd = (quadrant & 1) != 0;
      const auto sine_sign = static_cast<uint32_t>(quadrant & 2) << 30;
      const auto cosine_sign = static_cast<uint32_t>((quadrant + 1) & 2) << 30;
      sine[j] = radius[j] * float_of(bits_of(odd ? c : s) ^ sine_sign);
      cosine[j] = radius[j] * float_of(bits_of(odd ? s : c) ^ cosine_sign);
    }
    for (size_t j = 0; j < some; ++j) {
      out[2 * j] = cosine[j];
      out[2 * j + 1] = sine[j];
    }
  }
}
