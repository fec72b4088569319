// SPDX-License-Identifier: Apache-2.0
//
// Arrays made of positions alone.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace fill {

// start + i * step, each `repeat` times; the number at `n - 1` is `last` if there is one.
template <class T>
__device__ inline void range(T* y, int request, double start, double step, int64 repeat, int64 n, double last,
                             int64 ends) {
  const int64 stride = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    const double value = ends && i == n - 1 ? last : __dadd_rn(start, __dmul_rn(double(i / repeat), step));
    store(y, i, request, value);
  }
}

// Ones where the column is the row plus k.
template <class T> __device__ inline void eye(T* y, int request, int64 rows, int64 columns, int64 k) {
  const int64 stride = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += stride) {
    store(y, i, request, i % columns == i / columns + k ? 1.0f : 0.0f);
  }
}

}  // namespace fill
}  // namespace mx
