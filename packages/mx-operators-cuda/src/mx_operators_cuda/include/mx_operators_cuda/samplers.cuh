// SPDX-License-Identifier: Apache-2.0
//
// Random numbers whose distributions have parameters of their own, one counter per number: those of the CPU but for
// the last digits of logarithms and powers, since all is computed in double.  No kernel can raise an error about a
// parameter it reads: what no distribution has gives NaN.
//
// Sources: Marsaglia and Tsang, A simple method for generating gamma variables, 2000; Hormann, The transformed
// rejection method for generating Poisson random variables, 1993.
#pragma once

#include "mx_core/philox.hpp"
#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace samplers {

constexpr double kUnit = 0x1p-53, kTwoPi = 6.283185307179586;
// Branches of a counter beside those of a rejection method's tries.
constexpr uint64 kBoost = 1ull << 40, kCount = 1ull << 48;

struct Pair { double first, second; };

struct Counter {
  uint64 key, place;

  __device__ Pair uniforms(uint64 branch) const {
    const philox::Block block = philox::block(key, place, branch);
    return {philox::uniform64(philox::join(block.words[0], block.words[1])),
            philox::uniform64(philox::join(block.words[2], block.words[3]))};
  }
  __device__ double normal(uint64 branch) const {
    const Pair u = uniforms(branch);
    return ::sqrt(-2 * ::log(u.first + kUnit)) * ::cos(kTwoPi * u.second);
  }
};

__device__ inline bool within(double x, bool least) { return (least ? x >= 0 : x > 0) && x < infinity<double>(); }

__device__ inline double gamma_number(const Counter& c, double shape) {
  if (!within(shape, false)) return not_a_number<double>();
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, scale = 1 / ::sqrt(9 * d);
  double result = 0;
  for (uint64 branch = 0;; branch += 2) {
    const double x = c.normal(branch), u = c.uniforms(branch + 1).first, root = 1 + scale * x;
    const double v = root * root * root;
    if (v > 0 && ::log(u + kUnit) < 0.5 * x * x + d * (1 - v + ::log(v))) {
      result = d * v;
      break;
    }
  }
  return shape < 1 ? result * ::pow(c.uniforms(kBoost).first + kUnit, 1 / shape) : result;
}

__device__ inline double poisson_by_inversion(const Counter& c, double rate, uint64 branch) {
  const double u = c.uniforms(branch).first;
  double term = ::exp(-rate), total = term;
  int count = 0;
  for (int k = 1; k < 100 && u >= total; ++k) {
    count = k;
    term = term * rate / k;
    total += term;
  }
  return count;
}

__device__ inline double poisson_by_rejection(const Counter& c, double rate, uint64 first) {
  const double b = 0.931 + 2.53 * ::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2);
  for (uint64 branch = first;; branch += 2) {
    const Pair pair = c.uniforms(branch);
    const double u = pair.first - 0.5, v = pair.second + kUnit;
    const double edge = ::fmax(0.5 - ::fabs(u), kUnit / 2);
    const double k = ::floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= accept) return k;
    if (!(k >= 0) || (edge < 0.013 && v > edge)) continue;
    const double left = ::log(v * inverse_alpha / (a / (edge * edge) + b));
    if (left <= k * ::log(rate) - rate - ::lgamma(k + 1)) return k;
  }
}

// An infinite rate gives infinity.
__device__ inline double poisson_number(const Counter& c, double rate, uint64 first) {
  if (!(rate >= 0)) return not_a_number<double>();
  if (rate < 10) return poisson_by_inversion(c, rate, first);
  return rate < infinity<double>() ? poisson_by_rejection(c, rate, first + 2) : rate;
}

// ---- distributions with two parameters, of which the last one may count for nothing ----

struct Uniform {
  __device__ static double at(const Counter& c, double low, double high) {
    return low - low == 0 && high - high == 0 ? low + c.uniforms(0).first * (high - low) : not_a_number<double>();
  }
};
struct Normal {
  __device__ static double at(const Counter& c, double mean, double deviation) {
    return mean - mean == 0 && within(deviation, true) ? mean + c.normal(0) * deviation : not_a_number<double>();
  }
};
struct Exponential {
  __device__ static double at(const Counter& c, double rate, double) {
    return within(rate, false) ? -::log1p(-c.uniforms(0).first) / rate : not_a_number<double>();
  }
};
struct Gamma {
  __device__ static double at(const Counter& c, double shape, double scale) {
    return within(scale, false) ? gamma_number(c, shape) * scale : not_a_number<double>();
  }
};
struct Poisson {
  __device__ static double at(const Counter& c, double rate, double) {
    return within(rate, true) ? poisson_number(c, rate, 0) : not_a_number<double>();
  }
};
struct NegativeBinomial {
  __device__ static double at(const Counter& c, double successes, double p) {
    if (!(p > 0 && p <= 1)) return not_a_number<double>();
    return poisson_number(c, gamma_number(c, successes) * ((1 - p) / p), kCount);
  }
};
struct GeneralizedNegativeBinomial {
  __device__ static double at(const Counter& c, double mean, double dispersion) {
    if (!within(mean, true) || !within(dispersion, true)) return not_a_number<double>();
    if (!(dispersion > 2.2250738585072014e-308)) return poisson_number(c, mean, kCount);
    const double rate = mean > 0 ? gamma_number(c, 1 / dispersion) * (mean * dispersion) : 0;
    return poisson_number(c, rate, kCount);
  }
};

// One distribution for all numbers.
template <class Law, class T>
__device__ inline void fill(T* y, int request, uint64 key, uint64 first, double a, double b, int64 n) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    store(y, i, request, Law::at(Counter{key, first + i}, a, b));
  }
}

// `each` numbers for every element of the parameters.
template <class Law, class T, class A, class B>
__device__ inline void draw(T* y, int request, uint64 key, uint64 first, const A* a, const B* b, int64 n, int64 each) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 k = i / each;
    const double second = b == nullptr ? 0 : convert<double>(b[k]);
    store(y, i, request, Law::at(Counter{key, first + i}, convert<double>(a[k]), second));
  }
}

// ---- choices ----

// The k-th uniform number of a stream of doubles.
__device__ inline double uniform_of(uint64 key, uint64 first, uint64 k) {
  const philox::Block block = philox::block(key, first + k / 2);
  return philox::uniform64(k % 2 ? philox::join(block.words[2], block.words[3])
                                 : philox::join(block.words[0], block.words[1]));
}

__device__ inline void keys(double* y, uint64 key, uint64 first, int64 n) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) y[i] = uniform_of(key, first, i);
}

// Rows of y in the order of `places`.
template <class T> __device__ inline void rows(const T* x, const int32* places, T* y, int request, int64 n, int64 inner) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n * inner; i += step) {
    const int64 from = int64(places[i / inner]) * inner + i % inner;
    if (request == kAdd) {
      if constexpr (is_floating<decltype(widen(x[0]))>) {
        store(y, i, request, convert<double>(x[from]));
      } else {
        store(y, i, request, convert<int64>(x[from]));
      }
    } else if (request != kNull) {
      y[i] = x[from];
    }
  }
}

// The first place at which the sum of the probabilities so far exceeds a uniform share of all.
template <class T, class P, class L>
__device__ inline void choose(const P* p, T* y, int request, L* logarithm, int log_request, uint64 key, uint64 first,
                              int64 n, int64 each, int64 classes) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const P* row = p + i / each * classes;
    double total = 0, sum = 0;
    for (int64 k = 0; k < classes; ++k) total += convert<double>(row[k]);
    const double wanted = uniform_of(key, first, i) * total;
    int64 found = classes - 1;
    for (int64 k = 0; k < classes; ++k) {
      sum += convert<double>(row[k]);
      if (sum > wanted) {
        found = k;
        break;
      }
    }
    store(y, i, request, found);
    if (logarithm != nullptr) store(logarithm, i, log_request, ::log(convert<double>(row[found])));
  }
}

// A thread per row: `count` different numbers below `classes`, and how many draws they took.
__device__ inline void different(int64* drawn, int64* y, int request, int64* tries, int tries_request, uint64 key,
                                 uint64 first, int64 rows, int64 count, int64 classes) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  const double range = ::log(static_cast<double>(classes));
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += step) {
    const philox::Block block = philox::block(key, first + i);
    const uint64 own = philox::join(block.words[0], block.words[1]);
    int64 made = 0, tried = 0;
    while (made < count) {
      const int64 x = static_cast<int64>(::floor(::exp(uniform_of(own, 0, tried) * range) + 0.5)) - 1;
      ++tried;
      bool fresh = true;
      for (int64 k = 0; k < made && fresh; ++k) fresh = drawn[i * count + k] != x;
      if (fresh) drawn[i * count + made++] = x;
    }
    for (int64 k = 0; k < count; ++k) store(y, i * count + k, request, drawn[i * count + k]);
    store(tries, i, tries_request, tried);
  }
}

}  // namespace samplers
}  // namespace mx
