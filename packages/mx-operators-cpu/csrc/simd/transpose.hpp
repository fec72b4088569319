// SPDX-License-Identifier: Apache-2.0
//
// Matrices of 8-, 4- and 2-byte elements transposed in registers: every cache line is read and written whole. Two rows
// of 2-byte elements are one of 4-byte pairs.
// Included by each instruction set's translation unit, inside its own namespace.

#if MX_VECTOR == 512
constexpr int64_t kTile = 16;
using Words = __m512i;
inline Words words_at(const uint32_t* from) { return _mm512_loadu_si512(from); }
inline Words words_at(const uint16_t* from) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline void store_words(void* to, Words x) { _mm512_storeu_si512(to, x); }
inline Words beside(Words low, Words high) { return _mm512_or_si512(low, _mm512_slli_epi32(high, 16)); }
// The first and the second half of two registers, word by word or by pairs of words, within each quarter of 16 bytes.
inline Words first_words(Words a, Words b) { return _mm512_unpacklo_epi32(a, b); }
inline Words second_words(Words a, Words b) { return _mm512_unpackhi_epi32(a, b); }
inline Words first_pairs(Words a, Words b) { return _mm512_unpacklo_epi64(a, b); }
inline Words second_pairs(Words a, Words b) { return _mm512_unpackhi_epi64(a, b); }

// r[4 * j + i] has row i of a 4 x 4 square in each of its parts of 16 bytes; those are transposed as a 4 x 4 matrix.
template <class T>
inline void store_squares(T* to, int64_t stride, const Words* r) {
  for (int i = 0; i < 4; ++i) {
    const Words a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88), b = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
    const Words c = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88), d = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    store_words(to + i * stride, _mm512_shuffle_i32x4(a, c, 0x88));
    store_words(to + (4 + i) * stride, _mm512_shuffle_i32x4(b, d, 0x88));
    store_words(to + (8 + i) * stride, _mm512_shuffle_i32x4(a, c, 0xdd));
    store_words(to + (12 + i) * stride, _mm512_shuffle_i32x4(b, d, 0xdd));
  }
}
#elif MX_VECTOR == 256
constexpr int64_t kTile = 8;
using Words = __m256i;
inline Words words_at(const uint32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline Words words_at(const uint16_t* from) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline void store_words(void* to, Words x) { _mm256_storeu_si256(static_cast<__m256i*>(to), x); }
inline Words beside(Words low, Words high) { return _mm256_or_si256(low, _mm256_slli_epi32(high, 16)); }
inline Words first_words(Words a, Words b) { return _mm256_unpacklo_epi32(a, b); }
inline Words second_words(Words a, Words b) { return _mm256_unpackhi_epi32(a, b); }
inline Words first_pairs(Words a, Words b) { return _mm256_unpacklo_epi64(a, b); }
inline Words second_pairs(Words a, Words b) { return _mm256_unpackhi_epi64(a, b); }

// The same for two parts.
template <class T>
inline void store_squares(T* to, int64_t stride, const Words* r) {
  for (int i = 0; i < 4; ++i) {
    store_words(to + i * stride, _mm256_permute2x128_si256(r[i], r[4 + i], 0x20));
    store_words(to + (4 + i) * stride, _mm256_permute2x128_si256(r[i], r[4 + i], 0x31));
  }
}
#else
constexpr int64_t kTile = 4;
template <class T>
inline void transpose_tile(T* to, int64_t to_stride, const T* from, int64_t from_stride) {
  constexpr int64_t kColumns = kTile * sizeof(uint32_t) / sizeof(T);
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kColumns; ++j) to[i * to_stride + j] = from[j * from_stride + i];
}
#endif

#if MX_VECTOR > 128
inline Words row_of_words(const uint32_t* from, int64_t) { return words_at(from); }
inline Words row_of_words(const uint16_t* from, int64_t stride) {
  return beside(words_at(from), words_at(from + stride));
}

// to[i][j] = from[j][i] for a tile: kTile i, and j for as many words; strides in elements.
template <class T>
inline void transpose_tile(T* to, int64_t to_stride, const T* from, int64_t from_stride) {
  constexpr int64_t kPer = sizeof(uint32_t) / sizeof(T);
  Words r[kTile], t[kTile];
  for (int64_t j = 0; j < kTile; ++j) r[j] = row_of_words(from + j * kPer * from_stride, from_stride);
  for (int64_t j = 0; j < kTile; j += 2) {
    t[j] = first_words(r[j], r[j + 1]);
    t[j + 1] = second_words(r[j], r[j + 1]);
  }
  for (int64_t j = 0; j < kTile; j += 4) {
    r[j] = first_pairs(t[j], t[j + 2]);
    r[j + 1] = second_pairs(t[j], t[j + 2]);
    r[j + 2] = first_pairs(t[j + 1], t[j + 3]);
    r[j + 3] = second_pairs(t[j + 1], t[j + 3]);
  }
  store_squares(to, to_stride, r);
}
#endif

// to[i * N + j] = from[i + j * from_stride]: a few planes, such as an image's colours, side by side.
template <int64_t N, class T>
void interleave(T* to, const T* from, int64_t from_stride, int64_t rows) {
  MX_INDEPENDENT
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < N; ++j) to[i * N + j] = from[i + j * from_stride];
}

// to[i * to_stride + j] = from[i + j * from_stride] for i < rows, j < n.
template <class T>
void transpose(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t rows, int64_t n) {
  auto* o = static_cast<T*>(to);
  auto* x = static_cast<const T*>(from);
  if (to_stride == n && n == 2) return interleave<2>(o, x, from_stride, rows);
  if (to_stride == n && n == 3) return interleave<3>(o, x, from_stride, rows);
  if (to_stride == n && n == 4) return interleave<4>(o, x, from_stride, rows);
  constexpr int64_t kColumns = kTile * sizeof(uint32_t) / sizeof(T);
  const int64_t whole_rows = rows / kTile * kTile, whole = n / kColumns * kColumns;
  constexpr int64_t kSquare = 4 * kTile;  // few pages at a time on both sides
  for (int64_t j0 = 0; j0 < whole; j0 += kSquare)
    for (int64_t i0 = 0; i0 < whole_rows; i0 += kSquare)
      for (int64_t i = i0; i < i0 + kSquare && i < whole_rows; i += kTile)
        for (int64_t j = j0; j < j0 + kSquare && j < whole; j += kColumns)
          transpose_tile(o + i * to_stride + j, to_stride, x + i + j * from_stride, from_stride);
  for (int64_t i = 0; i < whole_rows; ++i)
    for (int64_t j = whole; j < n; ++j) o[i * to_stride + j] = x[i + j * from_stride];
  for (int64_t i = whole_rows; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) o[i * to_stride + j] = x[i + j * from_stride];
}

// The same of 8-byte elements, by squares of four; a cache line is written by two of them.
void transpose64(void* out, int64_t to_stride, const void* in, int64_t from_stride, int64_t rows, int64_t n) {
  using Four = LanesOf<uint64_t, 32>::Vector;
  constexpr int64_t kSquare = 4, kRows = 32;  // rows that stay in the nearest cache
  // Loops over squares are unrolled, so that these stay in registers that are wide enough for their rows.
  constexpr int kInRegisters = MX_VECTOR > 128 ? 4 : 1;
  auto* to = static_cast<uint64_t*>(out);
  auto* from = static_cast<const uint64_t*>(in);
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t last = first + kRows < rows ? first + kRows : rows;
    int64_t j = 0;
    for (; j + kSquare <= n; j += kSquare) {
      int64_t i = first;
      for (; i + kSquare <= last; i += kSquare) {
        Four r[kSquare];
#pragma GCC unroll kInRegisters
        for (int64_t k = 0; k < kSquare; ++k) std::memcpy(&r[k], from + i + (j + k) * from_stride, sizeof r[k]);
        const Four a = __builtin_shuffle(r[0], r[1], Four{0, 4, 2, 6}), b = __builtin_shuffle(r[0], r[1], Four{1, 5, 3, 7});
        const Four c = __builtin_shuffle(r[2], r[3], Four{0, 4, 2, 6}), d = __builtin_shuffle(r[2], r[3], Four{1, 5, 3, 7});
        const Four t[kSquare] = {__builtin_shuffle(a, c, Four{0, 1, 4, 5}), __builtin_shuffle(b, d, Four{0, 1, 4, 5}),
                                 __builtin_shuffle(a, c, Four{2, 3, 6, 7}), __builtin_shuffle(b, d, Four{2, 3, 6, 7})};
#pragma GCC unroll kInRegisters
        for (int64_t k = 0; k < kSquare; ++k) std::memcpy(to + (i + k) * to_stride + j, &t[k], sizeof t[k]);
      }
      for (; i < last; ++i)
        for (int64_t k = 0; k < kSquare; ++k) to[i * to_stride + j + k] = from[i + (j + k) * from_stride];
    }
    for (; j < n; ++j)
      for (int64_t i = first; i < last; ++i) to[i * to_stride + j] = from[i + j * from_stride];
  }
}
