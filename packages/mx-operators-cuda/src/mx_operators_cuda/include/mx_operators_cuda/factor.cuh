// SPDX-License-Identifier: Apache-2.0
//
// Inverses, determinants and Cholesky factors: a block per matrix, in double, with a barrier after each step of the
// elimination.  No kernel can raise an error about a value it reads: of a matrix that has no inverse or no factor the
// result has infinities or NaN.
//
// Source of the gradient of the factor: Murray, Differentiation of the Cholesky decomposition, 2016.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace factor {

// Brings the best row of those from k on to k.  The sign of the permutation changes with a swap.
__device__ inline void pivot(double* w, int64 n, int64 width, int64 k, double* found, double& sign) {
  if (threadIdx.x == 0) {
    int64 best = k;
    for (int64 i = k + 1; i < n; ++i) {
      if (::fabs(w[i * width + k]) > ::fabs(w[best * width + k])) best = i;
    }
    *found = double(best);
  }
  __syncthreads();
  const int64 row = static_cast<int64>(*found);
  if (row != k) {
    sign = -sign;
    for (int64 j = threadIdx.x; j < width; j += blockDim.x) {
      const double kept = w[k * width + j];
      w[k * width + j] = w[row * width + j];
      w[row * width + j] = kept;
    }
  }
  __syncthreads();
}

// Inverses by elimination of [A | 1], for which `work` has 2 n n numbers of each matrix.  With heads the result is the
// transposed inverse times the head of its matrix, and 0 for a matrix without inverse.
template <class T>
__device__ inline void inverse(const T* x, const T* heads, double* work, T* y, int request, int64 batch, int64 n) {
  __shared__ double found;
  const int64 width = 2 * n;
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double *w = work + b * n * width, sign = 1;
    bool singular = false;
    for (int64 i = threadIdx.x; i < n * width; i += blockDim.x) {
      const int64 row = i / width, column = i % width;
      w[i] = column < n ? convert<double>(x[(b * n + row) * n + column]) : column - n == row ? 1 : 0;
    }
    __syncthreads();
    for (int64 k = 0; k < n; ++k) {
      pivot(w, n, width, k, &found, sign);
      const double d = w[k * width + k];
      singular = singular || d == 0;
      __syncthreads();  // all have read it
      for (int64 j = k + threadIdx.x; j < width; j += blockDim.x) w[k * width + j] /= d;
      __syncthreads();
      const int64 rest = width - k - 1;
      for (int64 i = threadIdx.x; i < n * rest; i += blockDim.x) {
        const int64 row = i / rest, column = k + 1 + i % rest;
        if (row != k) w[row * width + column] -= w[row * width + k] * w[k * width + column];
      }
      __syncthreads();
    }
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int64 row = i / n, column = i % n;
      double value = w[row * width + n + column];
      if (heads != nullptr) value = singular ? 0 : convert<double>(heads[b]) * w[column * width + n + row];
      store(y, b * n * n + i, request, value);
    }
    __syncthreads();
  }
}

// Determinants, or their signs and the logarithms of their absolute values.
template <class T>
__device__ inline void determinant(const T* x, double* work, T* y, int request, T* logarithm, int log_request,
                                   int64 batch, int64 n) {
  __shared__ double found;
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double *w = work + b * n * n, sign = 1, product = 1, sum = 0;
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) w[i] = convert<double>(x[b * n * n + i]);
    __syncthreads();
    for (int64 k = 0; k < n; ++k) {
      pivot(w, n, n, k, &found, sign);
      const double d = w[k * n + k];
      product *= d;
      sum += ::log(::fabs(d));
      if (d < 0) sign = -sign;
      if (d == 0) sign = 0;
      if (d != d) sign = d;
      const int64 rest = n - k - 1;
      for (int64 i = threadIdx.x; i < rest * rest && d != 0; i += blockDim.x) {
        const int64 row = k + 1 + i / rest, column = k + 1 + i % rest;
        w[row * n + column] -= w[row * n + k] / d * w[k * n + column];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      const double swapped = sign < 0 != product < 0 ? -product : product;
      store(y, b, request, logarithm == nullptr ? swapped : sign);
      if (logarithm != nullptr) store(logarithm, b, log_request, sign == 0 ? -infinity<double>() : sum);
    }
    __syncthreads();
  }
}

// Element (i, j) of a lower triangle, which may be stored as an upper one.
template <class T> __device__ inline double lower_at(const T* x, int64 n, int64 i, int64 j, bool stored_lower) {
  return convert<double>(stored_lower ? x[i * n + j] : x[j * n + i]);
}

template <class T>
__device__ inline void cholesky(const T* x, double* work, T* y, int request, int64 lower, int64 batch, int64 n) {
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double* w = work + b * n * n;
    const T* a = x + b * n * n;
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) w[i] = lower_at(a, n, i / n, i % n, lower != 0);
    __syncthreads();
    for (int64 k = 0; k < n; ++k) {
      const double d = ::sqrt(w[k * n + k]);
      __syncthreads();  // all have read it
      for (int64 i = k + threadIdx.x; i < n; i += blockDim.x) w[i * n + k] = i == k ? d : w[i * n + k] / d;
      __syncthreads();
      const int64 rest = n - k - 1;
      for (int64 i = threadIdx.x; i < rest * rest; i += blockDim.x) {
        const int64 row = k + 1 + i / rest, column = k + 1 + i % rest;
        if (column <= row) w[row * n + column] -= w[row * n + k] * w[column * n + k];
      }
      __syncthreads();
    }
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int64 row = lower != 0 ? i / n : i % n, column = lower != 0 ? i % n : i / n;
      store(y, b * n * n + i, request, column <= row ? w[row * n + column] : 0.0);
    }
    __syncthreads();
  }
}

// 1/2 inv(L)' (P + P') inv(L), where P is the lower triangle of L' G with half its diagonal.
template <class T>
__device__ inline void backward_cholesky(const T* head, const T* factor, double* work, T* y, int request, int64 lower,
                                         int64 batch, int64 n) {
  const bool stored = lower != 0;
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double* w = work + b * n * n;
    const T *g = head + b * n * n, *l = factor + b * n * n;
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int64 row = i / n > i % n ? i / n : i % n, column = i / n > i % n ? i % n : i / n;
      double sum = 0;
      for (int64 k = row; k < n; ++k) sum += lower_at(l, n, k, row, stored) * lower_at(g, n, k, column, stored);
      w[i] = sum;
    }
    __syncthreads();
    for (int side = 0; side < 2; ++side) {  // columns, then rows
      const int64 along = side == 0 ? n : 1, across = side == 0 ? 1 : n;
      for (int64 c = threadIdx.x; c < n; c += blockDim.x) {
        for (int64 i = n - 1; i >= 0; --i) {
          double sum = w[i * along + c * across];
          for (int64 k = i + 1; k < n; ++k) sum -= lower_at(l, n, k, i, stored) * w[k * along + c * across];
          w[i * along + c * across] = sum / lower_at(l, n, i, i, stored);
        }
      }
      __syncthreads();
    }
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) store(y, b * n * n + i, request, 0.5 * w[i]);
    __syncthreads();
  }
}

// The inverse of L L' for a lower triangle L.
template <class T>
__device__ inline void inverse_of_product(const T* x, double* work, T* y, int request, int64 lower, int64 batch,
                                          int64 n) {
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double* w = work + b * n * n;
    const T* l = x + b * n * n;
    for (int64 c = threadIdx.x; c < n; c += blockDim.x) {
      for (int64 i = 0; i < n; ++i) {
        double sum = i == c ? 1 : 0;
        for (int64 k = c; k < i; ++k) sum -= lower_at(l, n, i, k, lower != 0) * w[k * n + c];
        w[i * n + c] = i < c ? 0 : sum / lower_at(l, n, i, i, lower != 0);
      }
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int64 row = i / n, column = i % n;
      double sum = 0;
      for (int64 k = row > column ? row : column; k < n; ++k) sum += w[k * n + row] * w[k * n + column];
      store(y, b * n * n + i, request, sum);
    }
    __syncthreads();
  }
}

// Solutions of triangular systems, a thread per column of B, or per row if A stands to the right.
template <class T>
__device__ inline void solve(const T* triangles, const T* x, double* work, T* y, int request, double alpha,
                             int64 transposed, int64 lower, int64 right, int64 batch, int64 rows, int64 columns) {
  const int64 n = right != 0 ? columns : rows, systems = right != 0 ? rows : columns;
  const int64 along = right != 0 ? 1 : columns, across = right != 0 ? columns : 1;
  const bool turned = (transposed != 0) != (right != 0), ascending = (lower != 0) != turned;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 s = int64(blockIdx.x) * blockDim.x + threadIdx.x; s < batch * systems; s += step) {
    const T* a = triangles + s / systems * n * n;
    const int64 first = s / systems * rows * columns + s % systems * across;
    for (int64 done = 0; done < n; ++done) {
      const int64 i = ascending ? done : n - 1 - done;
      double sum = convert<double>(x[first + i * along]);
      for (int64 before = 0; before < done; ++before) {
        const int64 k = ascending ? before : n - 1 - before;
        sum -= convert<double>(turned ? a[k * n + i] : a[i * n + k]) * work[first + k * along];
      }
      work[first + i * along] = sum / convert<double>(a[i * n + i]);
    }
    for (int64 i = 0; i < n; ++i) store(y, first + i * along, request, alpha * work[first + i * along]);
  }
}

}  // namespace factor
}  // namespace mx
