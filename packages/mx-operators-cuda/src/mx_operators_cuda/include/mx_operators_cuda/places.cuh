// SPDX-License-Identifier: Apache-2.0
//
// Positions in arrays as numbers, rows replaced or marked by index, triangles of matrices, running sums.  No kernel can
// raise an error about a value it reads: indices are limited to the array.
#pragma once

#include "mx_operators_cuda/indexing.cuh"

namespace mx {
namespace places {

constexpr int kAxes = 8;

// Extents of up to eight axes; the first one may be -1, for as long as it needs to be.
struct Extents {
  int64 axes, of[kAxes];

  __device__ int64 limited(int64 at, int64 extent) const {
    return at < 0 ? 0 : extent < 0 || at < extent ? at : extent - 1;
  }
};

template <class T> __device__ inline void ravel(const T* x, T* y, int request, int64 n, const Extents& e) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    int64 made = 0;
#pragma unroll
    for (int a = 0; a < kAxes; ++a) {
      if (a >= e.axes) break;
      made = made * e.of[a] + e.limited(indexing::whole(x[a * n + i]), e.of[a]);
    }
    store(y, i, request, made);
  }
}
template <class T> __device__ inline void unravel(const T* x, T* y, int request, int64 n, const Extents& e) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  int64 size = 1;
#pragma unroll
  for (int a = 0; a < kAxes; ++a) {
    if (a < e.axes) size *= e.of[a];
  }
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    int64 left = e.limited(indexing::whole(x[i]), size);
#pragma unroll
    for (int a = kAxes - 1; a > 0; --a) {
      if (a >= e.axes) continue;
      store(y, a * n + i, request, left % e.of[a]);
      left /= e.of[a];
    }
    if (e.axes > 0) store(y, i, request, left);
  }
}

// Of each of n elements its index along one axis, which is number `place` of `axes` that are wanted.
__device__ inline void indices(int64* y, int request, int64 n, int64 axes, int64 place, int64 extent, int64 inner) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    store(y, i * axes + place, request, i / inner % extent);
  }
}

// ---- rows by index ----

// The last new row that has this place, or -1.
template <class I> __device__ inline int64 winner(const I* index, int64 count, int64 rows, int64 row) {
  for (int64 k = count - 1; k >= 0; --k) {
    if (indexing::bounded(indexing::whole(index[k]), rows, indexing::kClip) == row) return k;
  }
  return -1;
}
template <class V, class T, class I>
__device__ inline void replace(const T* old, const I* index, const T* fresh, T* y, int request, int64 rows, int64 count,
                               int64 inner) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * inner; i += step) {
    const int64 from = winner(index, count, rows, i / inner);
    store(y, i, request, convert<V>(from >= 0 ? fresh[from * inner + i % inner] : old[i]));
  }
}
// The gradients: replaced rows have none, and of new rows only those that count.
template <class V, class T, class I>
__device__ inline void backward_replace(const T* head, const I* index, T* old, int old_request, T* fresh,
                                        int fresh_request, int64 rows, int64 count, int64 inner) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < (rows + count) * inner; i += step) {
    const int64 row = i / inner;
    if (row < rows) {
      store(old, i, old_request, winner(index, count, rows, row) >= 0 ? V(0) : convert<V>(head[i]));
    } else {
      const int64 k = row - rows, place = indexing::bounded(indexing::whole(index[k]), rows, indexing::kClip);
      const bool counts = winner(index, count, rows, place) == k;
      store(fresh, i - rows * inner, fresh_request, counts ? convert<V>(head[place * inner + i % inner]) : V(0));
    }
  }
}

// 1 at the index of each row.
template <class T, class I>
__device__ inline void mark(const I* index, T* y, int request, int64 rows, int64 columns) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
    const double at = convert<double>(index[i / columns]);
    store(y, i, request, ::trunc(at) == double(i % columns) ? 1 : 0);
  }
}
// x with one element of each row replaced.
template <class V, class T, class I>
__device__ inline void put(const T* x, const T* values, const I* index, T* y, int request, int64 rows, int64 columns) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
    const int64 row = i / columns, at = indexing::bounded(indexing::whole(index[row]), columns, indexing::kClip);
    store(y, i, request, convert<V>(at == i % columns ? values[row] : x[i]));
  }
}

// ---- matrices ----

// Where element k of a triangle lies: a lower one row by row, an upper one column by column.
struct Triangle {
  int64 n, offset, lower;

  __device__ int64 size() const {
    const int64 k = n - (offset < 0 ? -offset : offset);
    return k * (k + 1) / 2;
  }
  // The number in the triangle of a row and a column; -1 outside of it.
  __device__ int64 place(int64 row, int64 column) const {
    const int64 a = lower != 0 ? row : column, b = lower != 0 ? column : row;
    const int64 depth = offset < 0 ? -offset : offset, line = a - depth;
    return line >= 0 && b <= line ? line * (line + 1) / 2 + b : -1;
  }
};
template <class V, class T>
__device__ inline void make_triangle(const T* x, T* y, int request, int64 batch, const Triangle& t) {
  const int64 area = t.n * t.n, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < batch * area; i += step) {
    const int64 place = t.place(i % area / t.n, i % t.n);
    store(y, i, request, place >= 0 ? convert<V>(x[i / area * t.size() + place]) : V(0));
  }
}
template <class V, class T>
__device__ inline void take_triangle(const T* x, T* y, int request, int64 batch, const Triangle& t) {
  const int64 size = t.size(), step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < batch * size; i += step) {
    const int64 k = i % size;
    int64 line = static_cast<int64>((::sqrt(8.0 * double(k) + 1) - 1) / 2);
    while (line * (line + 1) / 2 > k) --line;
    while ((line + 1) * (line + 2) / 2 <= k) ++line;
    const int64 a = line + (t.offset < 0 ? -t.offset : t.offset), b = k - line * (line + 1) / 2;
    const int64 row = t.lower != 0 ? a : b, column = t.lower != 0 ? b : a;
    store(y, i, request, convert<V>(x[(i / size * t.n + row) * t.n + column]));
  }
}
// A matrix with one triangle set to 0.
template <class V, class T>
__device__ inline void keep_triangle(const T* x, T* y, int request, int64 batch, const Triangle& t) {
  const int64 area = t.n * t.n, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < batch * area; i += step) {
    store(y, i, request, t.place(i % area / t.n, i % t.n) >= 0 ? convert<V>(x[i]) : V(0));
  }
}

// Kronecker products column by column of two matrices, `rows` in all, `inner` of them in b.
template <class V, class T>
__device__ inline void kronecker(const T* a, const T* b, T* y, int request, int64 rows, int64 inner, int64 columns) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
    const int64 row = i / columns, c = i % columns;
    store(y, i, request, mul(convert<V>(a[row / inner * columns + c]), convert<V>(b[row % inner * columns + c])));
  }
}

// Sums from one end of a row to each element: a thread per row.
template <class V, class T, class X>
__device__ inline void running(const X* x, T* y, int request, int64 outer, int64 extent, int64 inner, int64 backward) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < outer * inner; i += step) {
    const int64 first = i / inner * extent * inner + i % inner;
    V sum = 0;
    for (int64 k = 0; k < extent; ++k) {
      const int64 at = first + (backward != 0 ? extent - 1 - k : k) * inner;
      sum = add(sum, convert<V>(convert<T>(x[at])));
      store(y, at, request, sum);
    }
  }
}

}  // namespace places
}  // namespace mx
