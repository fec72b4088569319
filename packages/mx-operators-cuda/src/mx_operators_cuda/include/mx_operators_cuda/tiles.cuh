// SPDX-License-Identifier: Apache-2.0
//
// Copies in which neighbours of the source are not neighbours of the target: tiles of 32 x 32 elements go through shared
// memory, so that a warp reads neighbours and writes neighbours.  A column more than needed keeps the threads of a warp
// in different banks.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace tiles {

constexpr int kTile = 32, kRows = 8, kOuter = 4;

// Neighbours of the source lie along `columns`, those of the target along `rows`; further axes, missing ones of extent 1.
struct Walk {
  int64 columns, rows, from, to, from_row, to_column;
  int64 outer[kOuter], from_outer[kOuter], to_outer[kOuter];
};

template <class V, class T> __device__ inline void copy(const T* x, T* y, int request, const Walk& w) {
  __shared__ T tile[kTile][kTile + 1];
  const int64 across = (w.columns + kTile - 1) / kTile, down = (w.rows + kTile - 1) / kTile;
  const int64 n = across * down * w.outer[0] * w.outer[1] * w.outer[2] * w.outer[3];
  const int lane = static_cast<int>(threadIdx.x) % kTile, first = static_cast<int>(threadIdx.x) / kTile;
  for (int64 block = blockIdx.x; block < n; block += gridDim.x) {
    const int64 column = block % across * kTile, row = block / across % down * kTile;
    int64 rest = block / across / down, from = w.from, to = w.to;
#pragma unroll
    for (int a = kOuter - 1; a >= 0; --a) {
      from += rest % w.outer[a] * w.from_outer[a];
      to += rest % w.outer[a] * w.to_outer[a];
      rest /= w.outer[a];
    }
    for (int r = first; r < kTile; r += kRows) {
      if (row + r < w.rows && column + lane < w.columns) {
        tile[r][lane] = x[from + (row + r) * w.from_row + column + lane];
      }
    }
    __syncthreads();
    for (int c = first; c < kTile; c += kRows) {
      if (row + lane < w.rows && column + c < w.columns) {
        store(y, to + (column + c) * w.to_column + row + lane, request, convert<V>(tile[lane][c]));
      }
    }
    __syncthreads();  // before the next tile is read
  }
}

}  // namespace tiles
}  // namespace mx
