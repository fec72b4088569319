// SPDX-License-Identifier: Apache-2.0
//
// Local response normalization across the channels of (N, C, ...): a thread per element.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace lrn {

struct Geometry {
  int64 batch, channels, inner, reach;  // channels on either side

  __device__ int64 elements() const { return batch * channels * inner; }
};

template <class V, class T>
__device__ inline void forward(const T* x, T* y, int request, T* norm, int norm_request, double alpha, double beta,
                               double constant, const Geometry& g) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < g.elements(); i += step) {
    const int64 channel = i / g.inner % g.channels, first = channel < g.reach ? 0 : channel - g.reach;
    const int64 end = channel + g.reach < g.channels ? channel + g.reach + 1 : g.channels;
    V sum = 0;
    for (int64 c = first; c < end; ++c) sum += square(convert<V>(x[i + (c - channel) * g.inner]));
    const V made = V(constant) + V(alpha) * sum;
    store(norm, i, norm_request, made);
    store(y, i, request, convert<V>(x[i]) * power(made, V(-beta)));
  }
}

template <class V, class T>
__device__ inline void backward(const T* head, const T* x, const T* norm, T* grad, int request, double alpha,
                                double beta, const Geometry& g) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < g.elements(); i += step) {
    const int64 channel = i / g.inner % g.channels, first = channel < g.reach ? 0 : channel - g.reach;
    const int64 end = channel + g.reach < g.channels ? channel + g.reach + 1 : g.channels;
    V through = 0;
    for (int64 c = first; c < end; ++c) {
      const int64 at = i + (c - channel) * g.inner;
      through += convert<V>(head[at]) * convert<V>(x[at]) * power(convert<V>(norm[at]), V(-beta - 1));
    }
    const V direct = convert<V>(head[i]) * power(convert<V>(norm[i]), V(-beta));
    store(grad, i, request, direct - 2 * V(alpha) * V(beta) * convert<V>(x[i]) * through);
  }
}

}  // namespace lrn
}  // namespace mx
