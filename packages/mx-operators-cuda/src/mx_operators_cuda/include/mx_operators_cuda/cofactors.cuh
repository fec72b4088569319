// SPDX-License-Identifier: Apache-2.0
//
// Cofactors of matrices, of those without inverse too: a block per matrix, in double.  Rows and columns are exchanged
// until A = P L D U Q with the largest pivots first, where L and U have ones on their diagonals; the cofactors of a
// product are the product of the cofactors, and those of D are the products of all of its numbers but one.
#pragma once

#include "mx_operators_cuda/block.cuh"

namespace mx {
namespace cofactors {

__device__ inline void exchange(double* w, int64 n, int64 first, int64 second, int64 along, int64 across) {
  for (int64 j = threadIdx.x; j < n; j += blockDim.x) {
    const double kept = w[first * along + j * across];
    w[first * along + j * across] = w[second * along + j * across];
    w[second * along + j * across] = kept;
  }
}

// `work` has 2 n n + 3 n numbers of each matrix: its factors, the product of cofactors, D's cofactors, and where rows
// and columns were.
template <class T>
__device__ inline void cofactors(const T* heads, const T* x, double* work, T* y, int request, int64 batch, int64 n) {
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double *w = work + b * (2 * n * n + 3 * n), *z = w + n * n, *others = z + n * n, *rows = others + n;
    double *columns = rows + n, sign = 1;
    int64 wrong = 0;
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      w[i] = convert<double>(x[b * n * n + i]);
      wrong += w[i] - w[i] != 0;
    }
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) rows[i] = columns[i] = double(i);
    wrong = block::sum(wrong);
    for (int64 k = 0; k < n; ++k) {
      const int64 side = n - k;
      double most = -1;
      int64 at = -1;
      for (int64 i = threadIdx.x; i < side * side; i += blockDim.x) {
        const double size = ::fabs(w[(k + i / side) * n + k + i % side]);
        if (size > most) {
          most = size;
          at = i;
        }
      }
      const auto found = block::best(most, at);
      const int64 row = found.place < 0 ? k : k + found.place / side, column = found.place < 0 ? k : k + found.place % side;
      if (row != k) {
        sign = -sign;
        exchange(w, n, k, row, n, 1);
        if (threadIdx.x == 0) exchange(rows, 1, k, row, 1, 0);
        __syncthreads();
      }
      if (column != k) {
        sign = -sign;
        exchange(w, n, k, column, 1, n);
        if (threadIdx.x == 0) exchange(columns, 1, k, column, 1, 0);
        __syncthreads();
      }
      const double d = w[k * n + k];
      const int64 rest = side - 1;
      for (int64 i = threadIdx.x; i < rest * rest && d != 0; i += blockDim.x) {
        const int64 r = k + 1 + i / rest, c = k + 1 + i % rest;
        w[r * n + c] -= w[r * n + k] / d * w[k * n + c];
      }
      __syncthreads();
      for (int64 i = k + 1 + threadIdx.x; i < n; i += blockDim.x) {  // where the pivot is 0 all of these are
        w[i * n + k] = d != 0 ? w[i * n + k] / d : 0;
        w[k * n + i] = d != 0 ? w[k * n + i] / d : 0;
      }
      __syncthreads();
    }
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
      double product = 1;
      for (int64 k = 0; k < n; ++k) product *= k == i ? 1 : w[k * n + k];
      others[i] = product;
    }
    __syncthreads();
    for (int64 c = threadIdx.x; c < n; c += blockDim.x) {  // L' Z = the cofactors of D
      for (int64 i = n - 1; i >= 0; --i) {
        double sum = i == c ? others[i] : 0;
        for (int64 k = i + 1; k < n; ++k) sum -= w[k * n + i] * z[k * n + c];
        z[i * n + c] = sum;
      }
    }
    __syncthreads();
    for (int64 r = threadIdx.x; r < n; r += blockDim.x) {  // what times U' is Z
      for (int64 j = n - 1; j >= 0; --j) {
        double sum = z[r * n + j];
        for (int64 k = j + 1; k < n; ++k) sum -= z[r * n + k] * w[j * n + k];
        z[r * n + j] = sum;
      }
    }
    __syncthreads();
    const double scale = wrong > 0 ? not_a_number<double>() : sign * convert<double>(heads[b]);
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int64 to = static_cast<int64>(rows[i / n]) * n + static_cast<int64>(columns[i % n]);
      store(y, b * n * n + to, request, scale * z[i]);
    }
    __syncthreads();
  }
}

}  // namespace cofactors
}  // namespace mx
