// SPDX-License-Identifier: Apache-2.0
//
// Orthogonal decompositions and their gradients, in double: a block per matrix, at most block::kMost threads.
//
// Sources: Householder, Unitary Triangularization of a Nonsymmetric Matrix, 1958, with the signs of LAPACK's dgeqrf;
// Jacobi's rotations in the order of Brent and Luk, The Solution of Singular-Value and Symmetric Eigenvalue Problems on
// Multiprocessor Arrays, 1985; the gradients: Seeger et al., Auto-Differentiating Linear Algebra, 2017.
#pragma once

#include "mx_operators_cuda/block.cuh"

namespace mx {
namespace orthogonal {

// The largest absolute value of a block's matrix, of which each thread knows its own part; 1 for zeros.
__device__ inline double scale_of(double most) {
  const double found = block::best(most, threadIdx.x).value;
  return found == 0 ? 1 : found;
}

// Reflects a row at the vector (1, v[1], v[2], ...), of which `tau` is 2 over its squared length.
__device__ inline void reflect(double* row, const double* v, double tau, int64 n) {
  double dot = row[0];
  for (int64 j = 1; j < n; ++j) dot += v[j] * row[j];
  dot *= tau;
  row[0] -= dot;
  for (int64 j = 1; j < n; ++j) row[j] -= dot * v[j];
}

// A (m, n) = L Q, m <= n.  Of each matrix `work` has A, whose upper part becomes the vectors of the reflections, Q, and
// a number per reflection.
template <class T>
__device__ inline void lq(const T* x, double* work, T* y, int request, T* factor, int factor_request, int64 batch,
                          int64 m, int64 n) {
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double *a = work + b * (2 * m * n + m), *q = a + m * n, *taus = q + m * n;
    double most = 0;
    for (int64 i = threadIdx.x; i < m * n; i += blockDim.x) {
      a[i] = convert<double>(x[b * m * n + i]);
      q[i] = i / n == i % n ? 1 : 0;
      if (::fabs(a[i]) > most) most = ::fabs(a[i]);
    }
    most = scale_of(most);
    for (int64 i = threadIdx.x; i < m * n; i += blockDim.x) a[i] /= most;
    __syncthreads();
    for (int64 k = 0; k < m; ++k) {
      double* row = a + k * n;
      double squares = 0;
      for (int64 j = k + 1 + threadIdx.x; j < n; j += blockDim.x) squares += row[j] * row[j];
      squares = block::sum(squares);
      const double first = row[k], length = ::sqrt(first * first + squares), head = first < 0 ? length : -length;
      const double tau = squares == 0 ? 0 : (head - first) / head;
      __syncthreads();  // all have read it
      if (threadIdx.x == 0) {
        taus[k] = tau;
        if (tau != 0) row[k] = head;
      }
      for (int64 j = k + 1 + threadIdx.x; j < n && tau != 0; j += blockDim.x) row[j] /= first - head;
      __syncthreads();
      for (int64 i = k + 1 + threadIdx.x; i < m; i += blockDim.x) reflect(a + i * n + k, row + k, tau, n - k);
      __syncthreads();
    }
    for (int64 i = threadIdx.x; i < m; i += blockDim.x) {
      for (int64 k = i; k >= 0; --k) reflect(q + i * n + k, a + k * n + k, taus[k], n - k);
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < m * n; i += blockDim.x) store(y, b * m * n + i, request, q[i]);
    for (int64 i = threadIdx.x; i < m * m; i += blockDim.x) {
      const int64 row = i / m, column = i % m;
      store(factor, b * m * m + i, factor_request, column <= row ? a[row * n + column] * most : 0.0);
    }
    __syncthreads();
  }
}

// inv(L)' (dQ + M Q), where M is the lower triangle of L' dL - dQ Q', mirrored upwards.
template <class T>
__device__ inline void backward_lq(const T* q_head, const T* l_head, const T* q, const T* factor, double* work, T* y,
                                   int request, int64 batch, int64 m, int64 n) {
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double *middle = work + b * m * (m + n), *w = middle + m * m;
    const T *dq = q_head + b * m * n, *dl = l_head + b * m * m, *own = q + b * m * n, *l = factor + b * m * m;
    for (int64 i = threadIdx.x; i < m * m; i += blockDim.x) {
      const int64 row = i / m > i % m ? i / m : i % m, column = i / m > i % m ? i % m : i / m;
      double sum = 0;
      for (int64 k = row; k < m; ++k) sum += convert<double>(l[k * m + row]) * convert<double>(dl[k * m + column]);
      for (int64 k = 0; k < n; ++k) sum -= convert<double>(dq[row * n + k]) * convert<double>(own[column * n + k]);
      middle[i] = sum;
    }
    __syncthreads();
    for (int64 column = threadIdx.x; column < n; column += blockDim.x) {
      for (int64 row = m - 1; row >= 0; --row) {
        double sum = convert<double>(dq[row * n + column]);
        for (int64 k = 0; k < m; ++k) sum += middle[row * m + k] * convert<double>(own[k * n + column]);
        for (int64 k = row + 1; k < m; ++k) sum -= convert<double>(l[k * m + row]) * w[k * n + column];
        w[row * n + column] = sum / convert<double>(l[row * m + row]);
      }
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < m * n; i += blockDim.x) store(y, b * m * n + i, request, w[i]);
    __syncthreads();
  }
}

// Of n numbers, each meets each other once in as many rounds as there are others: pair `i` of a round.  An odd one out
// meets number n, which there is not.
struct Pair {
  int64 p, q;

  __device__ static Pair of(int64 i, int64 round, int64 even) {
    const int64 others = even - 1, one = i == 0 ? 0 : 1 + (i - 1 + round) % others, two = 1 + (even - 2 - i + round) % others;
    return one < two ? Pair{one, two} : Pair{two, one};
  }
};

// (x, y) becomes (c x - s y, s x + c y).
__device__ inline void turn(double& x, double& y, double c, double s) {
  const double before = x;
  x = c * before - s * y;
  y = s * before + c * y;
}

// One sweep of rotations, each of which makes an element beside the diagonal 0.  `u` takes their product.
__device__ inline void sweep(double* a, double* u, double* turns, int64 n) {
  const int64 even = n + n % 2, pairs = even / 2;
  for (int64 round = 0; round < even - 1; ++round) {
    for (int64 i = threadIdx.x; i < pairs; i += blockDim.x) {
      const Pair at = Pair::of(i, round, even);
      double t = 0;
      if (at.q < n && a[at.p * n + at.q] != 0) {
        const double half = (a[at.q * n + at.q] - a[at.p * n + at.p]) / (2 * a[at.p * n + at.q]);
        t = (half < 0 ? -1 : 1) / (::fabs(half) + ::sqrt(half * half + 1));
      }
      turns[2 * i] = 1 / ::sqrt(t * t + 1);
      turns[2 * i + 1] = t * turns[2 * i];
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < pairs * n; i += blockDim.x) {
      const Pair at = Pair::of(i / n, round, even);
      const int64 j = i % n;
      const double c = turns[i / n * 2], s = turns[i / n * 2 + 1];
      if (at.q == n) continue;
      turn(a[at.p * n + j], a[at.q * n + j], c, s);
      turn(u[at.p * n + j], u[at.q * n + j], c, s);
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < pairs * n; i += blockDim.x) {
      const Pair at = Pair::of(i / n, round, even);
      const int64 j = i % n;
      if (at.q != n) turn(a[j * n + at.p], a[j * n + at.q], turns[i / n * 2], turns[i / n * 2 + 1]);
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < pairs; i += blockDim.x) {  // what rounding has left there
      const Pair at = Pair::of(i, round, even);
      if (at.q != n) a[at.p * n + at.q] = a[at.q * n + at.p] = 0;
    }
    __syncthreads();
  }
}

// The sum of squares, of all elements or of those beside the diagonal.
__device__ inline double squares(const double* a, int64 n, bool beside) {
  double sum = 0;
  for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
    if (!beside || i / n != i % n) sum += a[i] * a[i];
  }
  return block::sum(sum);
}

constexpr int kSweeps = 40;  // some ten are usual

// A = U' diag(values) U of symmetric matrices, of which the lower triangles are read: eigenvectors in rows, the largest
// component of each positive, values ascending.  All are NaN for a matrix that is not finite.  Of each matrix `work` has
// A, U, and two numbers per pair.
template <class T>
__device__ inline void eigen(const T* x, double* work, T* vectors, int request, T* values, int values_request,
                             int64 batch, int64 n) {
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double *a = work + b * (2 * n * n + n + 1), *u = a + n * n, *turns = u + n * n;
    double most = 0;
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int64 row = i / n > i % n ? i / n : i % n, column = i / n > i % n ? i % n : i / n;
      a[i] = convert<double>(x[(b * n + row) * n + column]);
      u[i] = i / n == i % n ? 1 : 0;
      if (::fabs(a[i]) > most) most = ::fabs(a[i]);
    }
    most = scale_of(most);
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) a[i] /= most;
    __syncthreads();
    const double all = squares(a, n, false);
    for (int done = 0; done < kSweeps && squares(a, n, true) > 1e-32 * all; ++done) sweep(a, u, turns, n);
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
      const double value = a[i * n + i];
      int64 rank = 0, largest = 0;
      for (int64 j = 0; j < n; ++j) {
        const double other = a[j * n + j];
        rank += other < value || (other == value && j < i) ? 1 : 0;
        if (::fabs(u[i * n + j]) > ::fabs(u[i * n + largest])) largest = j;
      }
      double sign = u[i * n + largest] < 0 ? -1 : 1;
      if (all != all) {
        rank = i;
        sign = all;
      }
      store(values, b * n + rank, values_request, sign == sign ? value * most : sign);
      for (int64 j = 0; j < n; ++j) store(vectors, (b * n + rank) * n + j, request, sign * u[i * n + j]);
    }
    __syncthreads();
  }
}

// U' (diag(d values) + sym(F . U dU')) U, F[i, j] = 1 / (values[j] - values[i]), 0 where they are equal but for
// `epsilon`.
template <class T>
__device__ inline void backward_eigen(const T* u_head, const T* values_head, const T* vectors, const T* values,
                                      double* work, T* y, int request, double epsilon, int64 batch, int64 n) {
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    double *middle = work + b * 2 * n * n, *w = middle + n * n;
    const T *du = u_head + b * n * n, *u = vectors + b * n * n, *d = values + b * n;
    double most = 0;
    for (int64 i = 0; i < n; ++i) most = ::fmax(most, ::fabs(convert<double>(d[i])));
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      const int64 row = i / n, column = i % n;
      const double gap = convert<double>(d[column]) - convert<double>(d[row]);
      double sum = 0;
      if (row == column) sum = convert<double>(values_head[b * n + row]);
      if (::fabs(gap) > most * epsilon) {  // the other half of sym() has the other sign of the gap
        for (int64 k = 0; k < n; ++k) {
          sum += convert<double>(u[row * n + k]) * convert<double>(du[column * n + k]) -
                 convert<double>(u[column * n + k]) * convert<double>(du[row * n + k]);
        }
        sum /= 2 * gap;
      }
      middle[i] = sum;
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      double sum = 0;
      for (int64 k = 0; k < n; ++k) sum += middle[i / n * n + k] * convert<double>(u[k * n + i % n]);
      w[i] = sum;
    }
    __syncthreads();
    for (int64 i = threadIdx.x; i < n * n; i += blockDim.x) {
      double sum = 0;
      for (int64 k = 0; k < n; ++k) sum += convert<double>(u[k * n + i / n]) * w[k * n + i % n];
      store(y, b * n * n + i, request, sum);
    }
    __syncthreads();
  }
}

}  // namespace orthogonal
}  // namespace mx
