// SPDX-License-Identifier: Apache-2.0
//
// Rows chosen by a mask.  The place of each chosen row among them is counted in pieces: a block counts a piece, one
// thread adds the counts up, and blocks number the rows of their pieces.
#pragma once

#include "mx_operators_cuda/block.cuh"

namespace mx {
namespace masks {

template <class T> __device__ inline bool chosen(T x) { return widen(x) != decltype(widen(x))(0); }

// How many are chosen in each piece.
template <class T> __device__ inline void count(const T* mask, int64* counts, int64 n, int64 piece) {
  for (int64 p = blockIdx.x; p * piece < n; p += gridDim.x) {
    const int64 end = (p + 1) * piece < n ? (p + 1) * piece : n;
    int64 found = 0;
    for (int64 i = p * piece + threadIdx.x; i < end; i += blockDim.x) found += chosen(mask[i]);
    found = block::sum(found);
    if (threadIdx.x == 0) counts[p] = found;
  }
}

// Counts become how many there are before; the last one is that of all.
__device__ inline void add_up(int64* counts, int64 pieces) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  int64 before = 0;
  for (int64 p = 0; p < pieces; ++p) {
    const int64 here = counts[p];
    counts[p] = before;
    before += here;
  }
  counts[pieces] = before;
}

// The place of each chosen row, -1 of others.
template <class T>
__device__ inline void places(const T* mask, const int64* counts, int64* made, int64 n, int64 piece) {
  __shared__ int32 running[2][block::kMost];
  const unsigned own = threadIdx.x;
  for (int64 p = blockIdx.x; p * piece < n; p += gridDim.x) {
    const int64 end = (p + 1) * piece < n ? (p + 1) * piece : n;
    int64 before = counts[p];
    for (int64 first = p * piece; first < end; first += blockDim.x) {
      const int64 i = first + own;
      const bool is_chosen = i < end && chosen(mask[i]);
      int now = 0;
      running[0][own] = is_chosen;
      __syncthreads();
      for (unsigned step = 1; step < blockDim.x; step *= 2) {
        running[1 - now][own] = running[now][own] + (own >= step ? running[now][own - step] : 0);
        now = 1 - now;
        __syncthreads();
      }
      if (i < end) made[i] = is_chosen ? before + running[now][own] - 1 : -1;
      before += running[now][blockDim.x - 1];
      __syncthreads();  // all have read it
    }
  }
}

template <class T>
__device__ inline void gather(const T* x, const int64* places, T* y, int64 n, int64 width) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n * width; i += step) {
    const int64 to = places[i / width];
    if (to >= 0) y[to * width + i % width] = x[i];
  }
}

template <class V, class T>
__device__ inline void scatter(const T* head, const int64* places, T* y, int request, int64 n, int64 width,
                               int64 rows) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n * width; i += step) {
    const int64 from = places[i / width];
    store(y, i, request, from >= 0 && from < rows ? convert<V>(head[from * width + i % width]) : V(0));
  }
}

}  // namespace masks
}  // namespace mx
