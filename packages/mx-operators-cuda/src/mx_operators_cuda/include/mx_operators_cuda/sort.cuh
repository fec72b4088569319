// SPDX-License-Identifier: Apache-2.0
//
// A stable merge sort of positions by what lies there, NaN last.  Blocks sort tiles in shared memory; then each
// pass merges pairs of runs: an element's place is its place in its own run plus the number of elements of the
// other run that come before it, which a binary search finds.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace sort {

constexpr int kTile = 512;

// Element p of row r lies at r / inner * extent * inner + p * inner + r % inner.
struct Keys {
  int64 rows, extent, inner;
  int64 descending;

  __device__ int64 base(int64 row) const { return row / inner * extent * inner + row % inner; }
};

template <class V> __device__ inline bool before(V a, V b, bool descending) {
  return (descending ? a > b : a < b) || (b != b && a == a);
}

// How many of a sorted run come before `key`; with `equal` those that are no later, too.
template <class V, class At> __device__ inline int64 rank(const At& at, int64 n, V key, bool equal, bool descending) {
  int64 low = 0;
  while (n > 0) {
    const int64 half = n / 2;
    const V other = at(low + half);
    if (equal ? !before(key, other, descending) : before(other, key, descending)) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low;
}

// Where element i of two neighbouring runs of `width` goes, of `n` elements in all.
template <class V, class At> __device__ inline int64 merged(const At& at, int64 i, int64 width, int64 n, bool descending) {
  const int64 first = i / (2 * width) * (2 * width), middle = first + width < n ? first + width : n;
  const int64 end = middle + width < n ? middle + width : n;
  const bool left = i < middle;
  const int64 start = left ? middle : first, count = left ? end - middle : middle - first;
  const auto other = [&](int64 k) { return at(start + k); };
  return (left ? i : first + i - middle) + rank<V>(other, count, at(i), !left, descending);
}

// The order within tiles.
template <class V, class T> __device__ inline void tiles(const T* x, int32* order, int, const Keys& keys) {
  __shared__ V key[2][kTile];
  __shared__ int32 place[2][kTile];
  const int64 across = (keys.extent + kTile - 1) / kTile;
  for (int64 tile = blockIdx.x; tile < keys.rows * across; tile += gridDim.x) {
    const int64 row = tile / across, first = tile % across * kTile;
    const int64 n = keys.extent - first < kTile ? keys.extent - first : kTile;
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
      key[0][i] = convert<V>(x[keys.base(row) + (first + i) * keys.inner]);
      place[0][i] = static_cast<int32>(first + i);
    }
    __syncthreads();
    int now = 0;
    for (int64 width = 1; width < n; width *= 2) {
      for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
        const V* from = key[now];
        const int64 to = merged<V>([&](int64 k) { return from[k]; }, i, width, n, keys.descending != 0);
        key[1 - now][to] = from[i];
        place[1 - now][to] = place[now][i];
      }
      now = 1 - now;
      __syncthreads();
    }
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) order[row * keys.extent + first + i] = place[now][i];
    __syncthreads();
  }
}

// Runs of `width` merged in pairs.
template <class V, class T>
__device__ inline void merge(const T* x, const int32* order, int32* made, int, int64 width, const Keys& keys) {
  const int64 n = keys.rows * keys.extent, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 row = i / keys.extent, base = keys.base(row);
    const int32* mine = order + row * keys.extent;
    const auto at = [&](int64 k) { return convert<V>(x[base + mine[k] * keys.inner]); };
    const int64 to = merged<V>(at, i % keys.extent, width, keys.extent, keys.descending != 0);
    made[row * keys.extent + to] = mine[i % keys.extent];
  }
}

// The first k of each row: what lies there, and where.
template <class V, class T>
__device__ inline void values(const T* x, const int32* order, T* y, int request, int64 k, const Keys& keys) {
  const int64 n = keys.rows * k, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 row = i / k, j = i % k;
    const V value = convert<V>(x[keys.base(row) + order[row * keys.extent + j] * keys.inner]);
    store(y, (row / keys.inner * k + j) * keys.inner + row % keys.inner, request, value);
  }
}
template <class V, class T>
__device__ inline void positions(const int32* order, T* y, int request, int64 k, const Keys& keys) {
  const int64 n = keys.rows * k, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 row = i / k, j = i % k;
    store(y, (row / keys.inner * k + j) * keys.inner + row % keys.inner, request, V(order[row * keys.extent + j]));
  }
}
// Ones, or the elements of `head`, where the first k came from, zeros elsewhere.
template <class V, class T>
__device__ inline void spread(const T* head, const int32* order, T* y, int request, int64 k, const Keys& keys) {
  const int64 n = keys.rows * keys.extent, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 row = i / keys.extent, j = i % keys.extent;
    V value = j < k ? V(1) : V(0);
    if (head != nullptr && j < k) {
      value = convert<V>(head[(row / keys.inner * k + j) * keys.inner + row % keys.inner]);
    }
    store(y, keys.base(row) + order[i] * keys.inner, request, value);
  }
}

}  // namespace sort
}  // namespace mx
