// SPDX-License-Identifier: Apache-2.0
//
// Tiles of matrix products, summed in registers.  Included by each instruction set's translation unit, inside its own
// namespace; MX_VECTOR is its width.

// The accumulators leave registers for a line of b and a number of a.
#if MX_VECTOR == 512
constexpr int kTileRows = 8, kTileVectors = 3;
#elif MX_VECTOR == 256
constexpr int kTileRows = 4, kTileVectors = 3;
#else
constexpr int kTileRows = 4, kTileVectors = 2;
#endif
constexpr int kRowVectors = 12;  // of a single row

template <class T>
constexpr int kTileLanes = MX_VECTOR / 8 / static_cast<int>(sizeof(T));

// One by one: an array that is set or copied whole does not stay in registers.
template <class Vector, int Rows, int Columns>
MX_INLINE void clear(Vector (&total)[Rows][Columns]) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 12
    for (int c = 0; c < Columns; ++c) total[r][c] = Vector{};
}

// sums = a times the lines of b, the k-th of which begins at line_of(k).
template <class T, int Rows, int Vectors, class LineOf>
MX_INLINE void sum_tile(T* sums, const T* a, int64_t depth, const LineOf& line_of) {
  using Vector = typename LanesOf<T, MX_VECTOR / 8>::Vector;
  constexpr int kLanes = kTileLanes<T>;
  Vector total[Rows][Vectors];
  clear(total);
  for (int64_t k = 0; k < depth; ++k, a += Rows) {
    const T* b = line_of(k);
    Vector line[Vectors];
#pragma GCC unroll 12
    for (int v = 0; v < Vectors; ++v) __builtin_memcpy(&line[v], b + v * kLanes, sizeof line[v]);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 12
      for (int v = 0; v < Vectors; ++v) total[r][v] += a[r] * line[v];
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 12
    for (int v = 0; v < Vectors; ++v)
      __builtin_memcpy(sums + (r * Vectors + v) * kLanes, &total[r][v], sizeof total[r][v]);
}

template <class T>
void gemm_tile(T* sums, const T* a, const T* b, int64_t depth) {
  constexpr int kColumns = kTileVectors * kTileLanes<T>;
  sum_tile<T, kTileRows, kTileVectors>(sums, a, depth, [=](int64_t k) MX_INLINE_LAMBDA { return b + k * kColumns; });
}

template <class T, int Rows, int Vectors>
void lines_tile(T* sums, const T* a, const T* b, const int64_t* offsets, int64_t depth) {
  sum_tile<T, Rows, Vectors>(sums, a, depth, [=](int64_t k) MX_INLINE_LAMBDA { return b + offsets[k]; });
}

// Products along lines are summed lane by lane.
constexpr int kDotRows = 4, kDotColumns = MX_VECTOR == 512 ? 4 : 2;

template <class T>
void dot_tile(T* sums, const T* a, int64_t a_step, const T* b, const int64_t* offsets, const int64_t* mask, int64_t n) {
  using Vector = typename LanesOf<T, MX_VECTOR / 8>::Vector;
  using Bits = typename LanesOf<T, MX_VECTOR / 8>::Bits;
  constexpr int kLanes = kTileLanes<T>;
  Vector total[kDotRows][kDotColumns];
  clear(total);
  for (int64_t i = 0; i < n; i += kLanes) {
    Bits used;
    __builtin_memcpy(&used, mask + i, sizeof used);
    Vector line[kDotColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kDotColumns; ++c) {
      Bits bits;
      __builtin_memcpy(&bits, b + offsets[c] + i, sizeof bits);
      bits &= used;
      __builtin_memcpy(&line[c], &bits, sizeof bits);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kDotRows; ++r) {
      Vector row;
      __builtin_memcpy(&row, a + r * a_step + i, sizeof row);
#pragma GCC unroll 4
      for (int c = 0; c < kDotColumns; ++c) total[r][c] += row * line[c];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kDotRows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kDotColumns; ++c) {
      T sum = 0;
      for (int l = 0; l < kLanes; ++l) sum += total[r][c][l];
      sums[r * kDotColumns + c] += sum;
    }
}

template <class T>
void put_gemm_tile(GemmTile<T>& tile) {
  tile = {kTileRows, kTileVectors * kTileLanes<T>, gemm_tile<T>,
          lines_tile<T, kTileRows, kTileVectors>};
}

inline void put_line_tiles(LoopTable& table) {
  table.row64 = {kRowVectors * kTileLanes<double>, lines_tile<double, 1, kRowVectors>};
  table.dots64 = {kDotRows, kDotColumns, dot_tile<double>};
}
