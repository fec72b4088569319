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

template <class T>
constexpr int kTileLanes = MX_VECTOR / 8 / static_cast<int>(sizeof(T));

template <class T>
void gemm_tile(T* sums, const T* a, const T* b, int64_t depth) {
  using Vector = typename LanesOf<T, MX_VECTOR / 8>::Vector;
  constexpr int kLanes = kTileLanes<T>;
  Vector total[kTileRows][kTileVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kTileVectors; ++v) total[r][v] = Vector{};
  for (int64_t k = 0; k < depth; ++k, a += kTileRows, b += kTileVectors * kLanes) {
    Vector line[kTileVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kTileVectors; ++v) __builtin_memcpy(&line[v], b + v * kLanes, sizeof line[v]);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 3
      for (int v = 0; v < kTileVectors; ++v) total[r][v] += a[r] * line[v];
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r)  // one by one: an array that is copied whole does not stay in registers
#pragma GCC unroll 3
    for (int v = 0; v < kTileVectors; ++v)
      __builtin_memcpy(sums + (r * kTileVectors + v) * kLanes, &total[r][v], sizeof total[r][v]);
}

template <class T>
void put_gemm_tile(GemmTile<T>& tile) {
  tile = {kTileRows, kTileVectors * kTileLanes<T>, gemm_tile<T>};
}
