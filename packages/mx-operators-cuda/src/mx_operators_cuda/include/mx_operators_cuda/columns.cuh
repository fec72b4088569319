// SPDX-License-Identifier: Apache-2.0
//
// The windows of a convolution as columns of a matrix, and back: a thread per element of the result, which for an image
// adds up the windows that overlap there.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace columns {

// Up to three axes, missing ones of extent 1 in front.
struct Windows {
  int64 images, channels, extents[3], kernel[3], stride[3], dilate[3], pad[3], out[3];
};

template <class V, class T> __device__ inline void unfold(const T* x, T* y, int request, const Windows& w) {
  const int64 windows = w.out[0] * w.out[1] * w.out[2], size = w.kernel[0] * w.kernel[1] * w.kernel[2];
  const int64 n = w.images * w.channels * size * windows, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    int64 window = i % windows, element = i / windows % size, from = 0;
    int64 at[3];
    bool inside = true;
#pragma unroll
    for (int a = 2; a >= 0; --a) {
      at[a] = window % w.out[a] * w.stride[a] + element % w.kernel[a] * w.dilate[a] - w.pad[a];
      inside = inside && at[a] >= 0 && at[a] < w.extents[a];
      window /= w.out[a];
      element /= w.kernel[a];
    }
#pragma unroll
    for (int a = 0; a < 3; ++a) from = from * w.extents[a] + at[a];
    const int64 plane = i / windows / size * w.extents[0] * w.extents[1] * w.extents[2];
    store(y, i, request, inside ? convert<V>(x[plane + from]) : V(0));
  }
}

template <class V, class T> __device__ inline void fold(const T* x, T* y, int request, const Windows& w) {
  const int64 windows = w.out[0] * w.out[1] * w.out[2], size = w.kernel[0] * w.kernel[1] * w.kernel[2];
  const int64 area = w.extents[0] * w.extents[1] * w.extents[2], n = w.images * w.channels * area;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 place = i % area;
    const int64 at[3] = {place / w.extents[2] / w.extents[1], place / w.extents[2] % w.extents[1], place % w.extents[2]};
    V sum = 0;
    for (int64 k = 0; k < size; ++k) {
      int64 element = k, from = 0;
      int64 window[3];
      bool inside = true;
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        const int64 begin = at[a] + w.pad[a] - element % w.kernel[a] * w.dilate[a];
        window[a] = begin / w.stride[a];
        inside = inside && begin >= 0 && begin % w.stride[a] == 0 && window[a] < w.out[a];
        element /= w.kernel[a];
      }
#pragma unroll
      for (int a = 0; a < 3; ++a) from = from * w.out[a] + window[a];
      if (inside) sum += convert<V>(x[(i / area * size + k) * windows + from]);
    }
    store(y, i, request, sum);
  }
}

}  // namespace columns
}  // namespace mx
