// SPDX-License-Identifier: Apache-2.0
//
// Likelihoods of marked self-exciting point processes, in double: a thread per sequence, with arrays of its own in
// scratch memory.  No kernel can raise an error about a value it reads: marks are limited to those that there are.
//
// Source: Hawkes, Spectra of Some Self-Exciting and Mutually Exciting Point Processes, Biometrika 1971.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace hawkes {

struct Sizes {
  int64 sequences, kinds, events;
};

// What a sequence is made of.
template <class T, class M> struct Given {
  const T *background, *branching, *decay, *state, *lags;
  const M* marks;
  const T *lengths, *ends;
};

// Numbers of every mark of a sequence, in scratch memory.
struct Arrays {
  double *state, *by_background, *by_branching, *by_decay, *last, *state_by_decay;
  static constexpr int64 kCount = 6;

  __device__ Arrays(double* memory, int64 n)
      : state(memory), by_background(memory + n), by_branching(memory + 2 * n), by_decay(memory + 3 * n),
        last(memory + 4 * n), state_by_decay(memory + 5 * n) {}

  // Lets a state decay until now; what its intensity added up to.
  __device__ double settle(int64 k, double now, double a, double b) const {
    const double lag = now - last[k], left = ::exp(-b * lag), gone = state[k] * (1 - left);
    by_branching[k] -= gone;
    by_decay[k] -= a * (state_by_decay[k] * (1 - left) + state[k] * lag * left);
    state_by_decay[k] = state_by_decay[k] * left - state[k] * lag * left;
    state[k] *= left;
    last[k] = now;
    return a * gone;
  }
};

// One sequence from its beginning to its end; its likelihood.
template <class T, class M>
__device__ inline double follow(const Given<T, M>& x, const Arrays& own, int64 sequence, const Sizes& s) {
  for (int64 k = 0; k < s.kinds; ++k) {
    own.state[k] = convert<double>(x.state[sequence * s.kinds + k]);
    own.by_background[k] = own.by_branching[k] = own.by_decay[k] = own.last[k] = own.state_by_decay[k] = 0;
  }
  const double length = convert<double>(x.lengths[sequence]), end = convert<double>(x.ends[sequence]);
  double time = 0, total = 0;
  for (int64 e = 0; e < s.events && double(e) < length && s.kinds > 0; ++e) {
    const int64 at = sequence * s.events + e, mark = convert<int64>(x.marks[at]);
    const int64 k = mark < 0 ? 0 : mark < s.kinds ? mark : s.kinds - 1;
    time += convert<double>(x.lags[at]);
    const double a = convert<double>(x.branching[k]), b = convert<double>(x.decay[k]);
    total -= own.settle(k, time, a, b);
    const double intensity = convert<double>(x.background[sequence * s.kinds + k]) + a * b * own.state[k];
    total += ::log(intensity);
    own.by_background[k] += 1 / intensity;
    own.by_branching[k] += b * own.state[k] / intensity;
    own.by_decay[k] += a * (own.state[k] + b * own.state_by_decay[k]) / intensity;
    own.state[k] += 1;
  }
  double rate = 0;
  for (int64 k = 0; k < s.kinds; ++k) {
    total -= own.settle(k, end, convert<double>(x.branching[k]), convert<double>(x.decay[k]));
    rate += convert<double>(x.background[sequence * s.kinds + k]) * end;
    own.by_background[k] -= end;
  }
  return total - rate;
}

template <class T, class M>
__device__ inline void likelihood(const Given<T, M>& x, double* work, T* y, int request, T* states, int state_request,
                                  const Sizes& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.sequences; i += step) {
    const Arrays own(work + i * Arrays::kCount * s.kinds, s.kinds);
    store(y, i, request, follow(x, own, i, s));
    for (int64 k = 0; k < s.kinds; ++k) store(states, i * s.kinds + k, state_request, own.state[k]);
  }
}

// The gradient of the background, and in scratch memory those of the two others for every sequence.
template <class T, class M>
__device__ inline void slopes(const T* head, const Given<T, M>& x, double* work, T* background, int request,
                              const Sizes& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.sequences; i += step) {
    const Arrays own(work + i * Arrays::kCount * s.kinds, s.kinds);
    follow(x, own, i, s);
    const double g = convert<double>(head[i]);
    for (int64 k = 0; k < s.kinds; ++k) {
      store(background, i * s.kinds + k, request, g * own.by_background[k]);
      own.by_branching[k] *= g;
      own.by_decay[k] *= g;
    }
  }
}

// Sums over sequences.
template <class T>
__device__ inline void sums(const double* work, T* branching, int branching_request, T* decay, int decay_request,
                            const Sizes& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 k = int64(blockIdx.x) * blockDim.x + threadIdx.x; k < s.kinds; k += step) {
    double by_branching = 0, by_decay = 0;
    for (int64 i = 0; i < s.sequences; ++i) {
      const double* own = work + i * Arrays::kCount * s.kinds + k;
      by_branching += own[2 * s.kinds];
      by_decay += own[3 * s.kinds];
    }
    store(branching, k, branching_request, by_branching);
    store(decay, k, decay_request, by_decay);
  }
}

}  // namespace hawkes
}  // namespace mx
