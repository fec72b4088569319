// SPDX-License-Identifier: Apache-2.0
//
// Counts of values in intervals, and sums by place.  Counts are integers, so atomic additions give the same ones in any
// order; sums of floats are added up in order of a stable sort.  No kernel can raise an error about a value it reads:
// places are limited to those that there are.
//
// Source of the count sketch: Charikar, Chen, Farach-Colton, Finding Frequent Items in Data Streams, ICALP 2002.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"
#include "mx_operators_cuda/sort.cuh"

namespace mx {
namespace counts {

// Edges of intervals of one width.
struct Even {
  double low, high, width;
  int64 bins;

  // Rounded after each step, like those of a processor.
  __device__ double at(int64 i) const { return i == bins ? high : __dadd_rn(__dmul_rn(double(i), width), low); }
};

// Edges that are given.
template <class T> struct Given {
  const T* edges;
  int64 bins;

  __device__ double at(int64 i) const { return convert<double>(edges[i]); }
};

// The interval of a value, of which the last one has its upper end; -1 of a value outside, and of what is no number.
template <class E> __device__ inline int64 interval(const E& edges, double x) {
  if (!(x >= edges.at(0) && x <= edges.at(edges.bins))) return -1;
  int64 low = 0, n = edges.bins;  // the last edge that is not above x
  while (n > 1) {
    const int64 half = n / 2;
    if (edges.at(low + half) <= x) {
      low += half;
      n -= half;
    } else {
      n = half;
    }
  }
  return low;
}

template <class T, class E>
__device__ inline void count(const T* x, uint64* found, int64 n, const E& edges) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 bin = interval(edges, convert<double>(x[i]));
    if (bin >= 0) atomicAdd(found + bin, uint64(1));
  }
}

template <class T, class E>
__device__ inline void deliver(const uint64* found, int64* y, int request, T* made, int edge_request, const E& edges) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i <= edges.bins; i += step) {
    if (i < edges.bins) store(y, i, request, int64(found[i]));
    store(made, i, edge_request, edges.at(i));
  }
}

// ---- the count sketch: element i is added at place h[i] with sign s[i] ----

template <class H> __device__ inline int32 place_of(const H* h, int64 i, int64 places) {
  const int64 given = convert<int64>(h[i]);
  return static_cast<int32>(given < 0 ? 0 : given < places ? given : places - 1);
}

template <class H> __device__ inline void places(const H* h, int32* made, int64 n, int64 places) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) made[i] = place_of(h, i, places);
}

// A thread per sum: the elements of its place lie side by side in the order.
template <class V, class T, class S>
__device__ inline void sketch(const T* x, const S* signs, const int32* keys, const int32* order, T* y, int request,
                              int64 rows, int64 n, int64 places) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  const auto at = [&](int64 k) { return keys[order[k]]; };
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * places; i += step) {
    const int32 place = static_cast<int32>(i % places);
    const T* row = x + i / places * n;
    V sum = 0;
    for (int64 k = sort::rank<int32>(at, n, place, false, false); k < n && at(k) == place; ++k) {
      sum += convert<V>(row[order[k]]) * convert<V>(signs[order[k]]);
    }
    store(y, i, request, sum);
  }
}

template <class V, class T, class H, class S>
__device__ inline void backward_sketch(const T* head, const H* h, const S* signs, T* y, int request, int64 rows,
                                       int64 n, int64 places) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * n; i += step) {
    const V value = convert<V>(head[i / n * places + place_of(h, i % n, places)]);
    store(y, i, request, value * convert<V>(signs[i % n]));
  }
}

}  // namespace counts
}  // namespace mx
