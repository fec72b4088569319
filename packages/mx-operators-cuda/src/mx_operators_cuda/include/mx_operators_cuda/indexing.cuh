// SPDX-License-Identifier: Apache-2.0
//
// Elements by index: gathers, and scatters in a fixed order.  A scatter knows the order of its rows by a
// stable sort, so that the rows that meet in one place are added up one after another, or the last one counts.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace indexing {

enum Bounds { kClip = 0, kWrap = 1 };
enum Action { kSum = 0, kReplace = 1 };
constexpr int kAxes = 8;

// An index as a whole number: NaN is 0, a uint64 above int64 its largest number, other numbers beyond it the lowest.
template <class I> __device__ inline int64 whole(I stored) {
  if constexpr (is_same<I, uint64>) {
    return stored > 9223372036854775807ull ? 9223372036854775807LL : static_cast<int64>(stored);
  } else if constexpr (is_floating<decltype(widen(stored))>) {
    const double x = widen(stored);
    return x != x ? 0 : truncated<int64>(x);
  } else {
    return widen(stored);
  }
}
__device__ inline int64 bounded(int64 index, int64 extent, int bounds) {
  if (bounds == kWrap) return mod(index, extent);
  return index < 0 ? 0 : index < extent ? index : extent - 1;
}

// Indices of `axes` axes, each `n` of them.
struct Table {
  int64 axes, extents[kAxes], n;
  int64 bounds;

  __device__ int64 rows() const {
    int64 made = 1;
#pragma unroll
    for (int a = 0; a < kAxes; ++a) made *= extents[a];  // 1 where there is no axis
    return made;
  }
  template <class I> __device__ int64 row(const I* indices, int64 j) const {
    int64 made = 0;
#pragma unroll  // so that the extents stay in registers
    for (int a = 0; a < kAxes; ++a) {
      if (a >= axes) break;
      made = made * extents[a] + bounded(whole(indices[a * n + j]), extents[a], static_cast<int>(bounds));
    }
    return made;
  }
};

// y[o, j] = x[o, row(j)], of `inner` elements each.
template <class V, class T, class I>
__device__ inline void gather(const T* x, const I* indices, T* y, int request, int64 outer, int64 inner,
                              const Table& table) {
  const int64 n = outer * table.n * inner, step = int64(gridDim.x) * blockDim.x, rows = table.rows();
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 o = i / inner / table.n, row = table.row(indices, i / inner % table.n);
    store(y, i, request, convert<V>(x[(o * rows + row) * inner + i % inner]));
  }
}

// y[o, i] = x[o, row(o, i), i]: an index per result.
template <class V, class T, class I>
__device__ inline void pick(const T* x, const I* indices, T* y, int request, int64 inner, const Table& table) {
  const int64 step = int64(gridDim.x) * blockDim.x, rows = table.rows();
  for (int64 j = int64(blockIdx.x) * blockDim.x + threadIdx.x; j < table.n; j += step) {
    store(y, j, request, convert<V>(x[(j / inner * rows + table.row(indices, j)) * inner + j % inner]));
  }
}

// The row of each index, for the sort.
template <class I> __device__ inline void rows(const I* indices, int64* made, int, const Table& table) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 j = int64(blockIdx.x) * blockDim.x + threadIdx.x; j < table.n; j += step) {
    made[j] = table.row(indices, j);
  }
}

// y[o, row(j)] = x[o, j], or the sum of all j with this row; `order` sorts the rows.
template <class V, int action, class T>
__device__ inline void scatter(const T* x, const int64* rows, const int32* order, T* y, int request, int64 outer,
                               int64 n, int64 inner, int64 extent) {
  if (request == kNull) return;
  const int64 all = outer * n * inner, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64 place = i % inner, s = i / inner % n, o = i / inner / n, row = rows[order[s]];
    const T* from = x + o * n * inner + place;
    T* to = y + (o * extent + row) * inner + place;
    if (action == kReplace) {
      if (s + 1 < n && rows[order[s + 1]] == row) continue;
      store(to, 0, request, convert<V>(from[order[s] * inner]));
    } else {
      if (s > 0 && rows[order[s - 1]] == row) continue;
      V sum = 0;
      for (int64 k = s; k < n && rows[order[k]] == row; ++k) sum = add(sum, convert<V>(from[order[k] * inner]));
      store(to, 0, kAdd, sum);  // to zeros, or to what was there
    }
  }
}

template <class V, class T, class I>
__device__ inline void one_hot(const I* indices, T* y, int request, double on, double off, int64 n, int64 depth) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n * depth; i += step) {
    store(y, i, request, convert<V>(whole(indices[i / depth]) == i % depth ? on : off));
  }
}

}  // namespace indexing
}  // namespace mx
