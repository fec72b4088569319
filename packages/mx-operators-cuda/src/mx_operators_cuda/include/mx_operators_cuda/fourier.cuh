// SPDX-License-Identifier: Apache-2.0
//
// Discrete Fourier transforms of rows, in double: passes that sort as they go, each of which turns p transforms of
// length L into one of length p L, a thread per number.  Lengths with a large prime factor become a product of
// polynomials whose length is a power of two (Bluestein).  Complex numbers are pairs (real, imaginary).
//
// Sources: Cooley, Tukey, An Algorithm for the Machine Calculation of Complex Fourier Series, 1965; Stockham,
// High-Speed Convolution and Correlation, 1966; Bluestein, A Linear Filtering Approach to the Computation of Discrete
// Fourier Transform, 1970.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace fourier {

struct Complex {
  double re, im;

  __device__ static Complex at(const double* x, int64 i) { return {x[2 * i], x[2 * i + 1]}; }
  __device__ void put(double* x, int64 i) const {
    x[2 * i] = re;
    x[2 * i + 1] = im;
  }
  __device__ Complex times(const Complex& b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
  __device__ Complex conjugate() const { return {re, -im}; }
};

// exp(-2 pi i k / n), 0 <= k < n.
__device__ inline Complex root(int64 k, int64 n) {
  const double angle = 6.283185307179586 * (double(k) / double(n));
  return {::cos(angle), -::sin(angle)};
}
// exp(-pi i k k / n).
__device__ inline Complex chirp(int64 k, int64 n) { return root(k * k % (2 * n), 2 * n); }

// Rows of n numbers, which are computed with m: as many, or enough for the product of polynomials.
struct Rows {
  int64 rows, n, m;

  __device__ bool chirps() const { return m != n; }
};

__device__ inline void roots(double* w, int64 n) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) root(i, n).put(w, i);
}

// Numbers, or the conjugates of pairs: the inverse transform is the conjugate of that of conjugates.
template <class T> __device__ inline void load(const T* x, double* z, int64 pairs, const Rows& r) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.rows * r.m; i += step) {
    const int64 k = i % r.m, from = i / r.m * r.n + k;
    Complex value{0, 0};
    if (k < r.n) {
      if (pairs != 0) value = {convert<double>(x[2 * from]), -convert<double>(x[2 * from + 1])};
      else value.re = convert<double>(x[from]);
      if (r.chirps()) value = value.times(chirp(k, r.n));
    }
    value.put(z, i);
  }
}

// Transforms of length `done` become those of length p done.
__device__ inline void pass(const double* x, double* y, const double* w, int64 rows, int64 m, int64 p, int64 done) {
  const int64 step = int64(gridDim.x) * blockDim.x, length = p * done, left = m / length;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * m; i += step) {
    const int64 row = i / m * m, j = i % m / length, k = i % length;
    Complex sum{0, 0};
    for (int64 q = 0; q < p; ++q) {
      const Complex factor = Complex::at(w, q * k % length * left);
      const Complex part = Complex::at(x, row + (j + left * q) * done + k % done).times(factor);
      sum.re += part.re;
      sum.im += part.im;
    }
    sum.put(y, i);
  }
}

// What a row is multiplied with, as a polynomial.
__device__ inline void chirps(double* z, const Rows& r) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.m; i += step) {
    const int64 k = i < r.n ? i : r.m - i;
    const Complex value = k < r.n ? chirp(k, r.n).conjugate() : Complex{0, 0};
    value.put(z, i);
  }
}

// Conjugates of products.
__device__ inline void multiply(double* z, const double* factors, const Rows& r) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.rows * r.m; i += step) {
    Complex::at(z, i).times(Complex::at(factors, i % r.m)).conjugate().put(z, i);
  }
}

// Pairs, or real parts.
template <class T>
__device__ inline void deliver(const double* z, T* y, int request, int64 pairs, const Rows& r) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.rows * r.n; i += step) {
    const int64 k = i % r.n;
    Complex value = Complex::at(z, i / r.n * r.m + k);
    if (r.chirps()) {
      value = value.conjugate().times(chirp(k, r.n));
      value = {value.re / double(r.m), value.im / double(r.m)};
    }
    if (pairs != 0) {
      store(y, 2 * i, request, value.re);
      store(y, 2 * i + 1, request, value.im);
    } else {
      store(y, i, request, value.re);
    }
  }
}

}  // namespace fourier
}  // namespace mx
