// SPDX-License-Identifier: Apache-2.0
//
// The Dirichlet density of samples S + T + (K,) with parameters S + (K,), in double: a thread per sample, per element
// of samples, per element of parameters.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace density {

// Samples, of which `shared` in a row have the same parameters, of which there are so many elements.
struct Samples {
  int64 samples, shared, extent, elements;
};

template <class T> __device__ inline double logarithm(const T* x, const T* alpha, int64 sample, const Samples& s) {
  const T *values = x + sample * s.extent, *own = alpha + sample / s.shared * s.extent;
  double sum = 0, total = 0;
  for (int64 k = 0; k < s.extent; ++k) {
    const double a = convert<double>(own[k]);
    sum += (a - 1) * ::log(convert<double>(values[k])) - ::lgamma(a);
    total += a;
  }
  return sum + ::lgamma(total);
}

template <class T>
__device__ inline void dirichlet(const T* x, const T* alpha, T* y, int request, int64 is_log, const Samples& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.samples; i += step) {
    const double found = logarithm(x, alpha, i, s);
    store(y, i, request, is_log != 0 ? found : ::exp(found));
  }
}

// The head gradients of the logarithms.
template <class T>
__device__ inline void heads(const T* head, const T* x, const T* alpha, double* g, int64 is_log, const Samples& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.samples; i += step) {
    g[i] = convert<double>(head[i]) * (is_log != 0 ? 1 : ::exp(logarithm(x, alpha, i, s)));
  }
}

template <class T>
__device__ inline void by_sample(const double* g, const T* x, const T* alpha, T* y, int request, const Samples& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.samples * s.extent; i += step) {
    const int64 sample = i / s.extent, own = sample / s.shared * s.extent + i % s.extent;
    store(y, i, request, g[sample] * ((convert<double>(alpha[own]) - 1) / convert<double>(x[i])));
  }
}

template <class T>
__device__ inline void by_alpha(const double* g, const T* x, const T* alpha, T* y, int request, const Samples& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.elements; i += step) {
    const int64 first = i / s.extent, k = i % s.extent;
    double total = 0, sum = 0;
    for (int64 j = 0; j < s.extent; ++j) total += convert<double>(alpha[first * s.extent + j]);
    const double slope = digamma_double(total) - digamma_double(convert<double>(alpha[i]));
    for (int64 t = first * s.shared; t < (first + 1) * s.shared; ++t) {
      sum += g[t] * (::log(convert<double>(x[t * s.extent + k])) + slope);
    }
    store(y, i, request, sum);
  }
}

}  // namespace density
}  // namespace mx
