// SPDX-License-Identifier: Apache-2.0
//
// What the threads of a block find together.  A block has a power of two of threads, kMost at most, and all of them
// call.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace block {

constexpr int kMost = 256;

template <class V> struct Found {
  V value;
  int64 place;
};

// The largest value, at the lowest of its places; a place below 0 is none.
template <class V> __device__ inline Found<V> best(V value, int64 place) {
  __shared__ V values[kMost];
  __shared__ int64 places[kMost];
  const unsigned own = threadIdx.x;
  values[own] = value;
  places[own] = place;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (own < half) {
      const V other = values[own + half];
      const int64 there = places[own + half];
      const bool better = other > values[own] || (other == values[own] && there < places[own]);
      if (there >= 0 && (places[own] < 0 || better)) {
        values[own] = other;
        places[own] = there;
      }
    }
    __syncthreads();
  }
  const Found<V> found{values[0], places[0]};
  __syncthreads();  // all have read it
  return found;
}

template <class V> __device__ inline V sum(V value) {
  __shared__ V parts[kMost];
  const unsigned own = threadIdx.x;
  parts[own] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (own < half) parts[own] += parts[own + half];
    __syncthreads();
  }
  const V found = parts[0];
  __syncthreads();  // all have read it
  return found;
}

}  // namespace block
}  // namespace mx
