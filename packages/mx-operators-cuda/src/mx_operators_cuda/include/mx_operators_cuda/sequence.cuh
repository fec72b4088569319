// SPDX-License-Identifier: Apache-2.0
//
// Steps of padded sequences: data (steps, batch, inner), or (batch, steps, inner). A thread per element.
#pragma once

#include "mx_operators_cuda/indexing.cuh"

namespace mx {
namespace sequence {

struct Steps {
  int64 steps, batch, inner;
  int64 batch_first;

  __device__ int64 elements() const { return steps * batch * inner; }
  __device__ int64 step(int64 i) const { return batch_first ? i / inner % steps : i / inner / batch; }
  __device__ int64 row(int64 i) const { return batch_first ? i / inner / steps : i / inner % batch; }
  __device__ int64 at(int64 step, int64 row, int64 place) const {
    return (batch_first ? row * steps + step : step * batch + row) * inner + place;
  }
  // Between `lowest` and all steps.
  template <class L> __device__ int64 length(const L* lengths, int64 row, int64 lowest) const {
    if (lengths == nullptr) return steps;
    const int64 given = indexing::whole(lengths[row]);
    return given < lowest ? lowest : given < steps ? given : steps;
  }
};

template <class V, class T, class L>
__device__ inline void mask(const T* x, const L* lengths, T* y, int request, double value, const Steps& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.elements(); i += step) {
    const bool inside = lengths == nullptr || double(s.step(i)) < convert<double>(lengths[s.row(i)]);
    store(y, i, request, inside ? convert<V>(x[i]) : convert<V>(value));
  }
}

template <class V, class T, class L>
__device__ inline void last(const T* x, const L* lengths, T* y, int request, const Steps& s) {
  const int64 n = s.batch * s.inner, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 row = i / s.inner;
    store(y, i, request, convert<V>(x[s.at(s.length(lengths, row, 1) - 1, row, i % s.inner)]));
  }
}
// The gradient of `last`.
template <class V, class T, class L>
__device__ inline void spread(const T* head, const L* lengths, T* y, int request, const Steps& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.elements(); i += step) {
    const int64 row = s.row(i);
    const bool ends = s.step(i) == s.length(lengths, row, 1) - 1;
    store(y, i, request, ends ? convert<V>(head[row * s.inner + i % s.inner]) : V(0));
  }
}

template <class V, class T, class L>
__device__ inline void reverse(const T* x, const L* lengths, T* y, int request, const Steps& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.elements(); i += step) {
    const int64 t = s.step(i), row = s.row(i), n = s.length(lengths, row, 0);
    store(y, i, request, convert<V>(x[s.at(t < n ? n - 1 - t : t, row, i % s.inner)]));
  }
}

}  // namespace sequence
}  // namespace mx
