// SPDX-License-Identifier: Apache-2.0
//
// Correlation of patches of two images, and its gradients: a thread per element of the result.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace correlation {

// Images, the results for each of (2 radius + 1)^2 displacements, and what is read for them.
struct Shape {
  int64 images, channels, height, width, rows, columns, radius, step, begin, kernel, stride, pad, multiplies;

  __device__ int64 side() const { return 2 * radius + 1; }
  __device__ double count() const { return double(channels * kernel * kernel); }
  // Element (row, column) of an image, which zeros surround.
  template <class V, class T> __device__ V at(const T* image, int64 row, int64 column) const {
    return row >= 0 && row < height && column >= 0 && column < width ? convert<V>(image[row * width + column]) : V(0);
  }
};

template <class V, class T>
__device__ inline void forward(const T* a, const T* b, T* y, int request, const Shape& g) {
  const int64 planes = g.side() * g.side(), n = g.images * planes * g.rows * g.columns;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 column = i % g.columns, row = i / g.columns % g.rows, plane = i / g.columns / g.rows % planes;
    const int64 image = i / g.columns / g.rows / planes * g.channels;
    const int64 dy = (plane / g.side() - g.radius) * g.step, dx = (plane % g.side() - g.radius) * g.step;
    V sum = 0;
    for (int64 c = 0; c < g.channels; ++c) {
      const T *one = a + (image + c) * g.height * g.width, *two = b + (image + c) * g.height * g.width;
      for (int64 k = 0; k < g.kernel * g.kernel; ++k) {
        const int64 r = g.begin + k / g.kernel + row * g.stride - g.pad;
        const int64 s = g.begin + k % g.kernel + column * g.stride - g.pad;
        const V left = g.at<V>(one, r, s), right = g.at<V>(two, r + dy, s + dx);
        sum += g.multiplies != 0 ? left * right : absolute(left - right);
      }
    }
    store(y, i, request, sum / V(g.count()));
  }
}

// The gradient of the first image (second == 0) or of the second one.
template <class V, class T>
__device__ inline void backward(const T* head, const T* a, const T* b, T* grad, int request, int64 second,
                                const Shape& g) {
  const int64 size = g.height * g.width, planes = g.side() * g.side(), n = g.images * g.channels * size;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 row = i % size / g.width, column = i % g.width;
    const T *one = a + i / size * size, *two = b + i / size * size;
    V sum = 0;
    for (int64 plane = 0; plane < planes; ++plane) {
      const int64 dy = (plane / g.side() - g.radius) * g.step, dx = (plane % g.side() - g.radius) * g.step;
      const int64 r = second != 0 ? row - dy : row, s = second != 0 ? column - dx : column;
      const V left = g.at<V>(one, r, s), right = g.at<V>(two, r + dy, s + dx);
      const V sign = left >= right ? V(1) : V(-1);
      const V slope = second != 0 ? (g.multiplies != 0 ? left : -sign) : g.multiplies != 0 ? right : sign;
      V heads = 0;
      for (int64 k = 0; k < g.kernel * g.kernel; ++k) {
        const int64 down = r + g.pad - g.begin - k / g.kernel, across = s + g.pad - g.begin - k % g.kernel;
        if (down < 0 || across < 0 || down % g.stride != 0 || across % g.stride != 0) continue;
        if (down / g.stride >= g.rows || across / g.stride >= g.columns) continue;
        const int64 place = (i / size / g.channels * planes + plane) * g.rows + down / g.stride;
        heads += convert<V>(head[place * g.columns + across / g.stride]);
      }
      sum += heads * slope;
    }
    store(grad, i, request, sum / V(g.count()));
  }
}

}  // namespace correlation
}  // namespace mx
