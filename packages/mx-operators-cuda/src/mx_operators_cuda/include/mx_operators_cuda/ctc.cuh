// SPDX-License-Identifier: Apache-2.0
//
// Connectionist temporal classification: a block per sequence, in the log domain and in double. Forward and
// backward variables of the path (blanks around every label) lie in scratch memory, a step after the other.
#pragma once

#include "mx_operators_cuda/indexing.cuh"

namespace mx {
namespace ctc {

struct Extents {
  int64 steps, batch, classes, labels;
  int64 blank;
  int64 first;  // the blank is class 0: a 0 pads labels, otherwise -1 does

  __device__ int64 states() const { return 2 * labels + 1; }
};

__device__ inline double none() { return -infinity<double>(); }
__device__ inline double log_add(double a, double b) {
  const double high = a > b ? a : b, low = a > b ? b : a;
  return high == none() ? high : high + ::log1p(::exp(low - high));
}

// A sequence: its data, labels and lengths.
template <class T> struct Sequence {
  Extents e;
  int64 n, steps, count;
  const T* x;
  const int32* path;  // class of each label
  const double* norm;

  __device__ double log_probability(int64 t, int64 c) const {
    return convert<double>(x[(t * e.batch + n) * e.classes + c]) - norm[t];
  }
  __device__ int64 state(int64 s) const { return s % 2 ? path[s / 2] : e.blank; }
  __device__ double emitted(int64 t, int64 s) const { return s <= 2 * count ? log_probability(t, state(s)) : none(); }
  // Whether a path may go from state s - 2 to s.
  __device__ bool skips(int64 s) const {
    return s % 2 && s >= 3 && path[s / 2] != path[s / 2 - 1] && path[s / 2] != e.blank;
  }
};

template <class T, class L, class A, class B>
__device__ inline void loss(const T* x, const L* labels, const A* data_lengths, const B* label_lengths, T* made,
                            int request, T* slope, int slope_request, int32* paths, int, double* norms, int,
                            double* forwards, int, double* backwards, int, const Extents& e) {
  const int64 states = e.states();
  for (int64 n = blockIdx.x; n < e.batch; n += gridDim.x) {
    int32* path = paths + n * e.labels;
    double *norm = norms + n * e.steps, *forward = forwards + n * e.steps * states;
    double* backward = backwards + n * e.steps * states;
    int64 count = e.labels, steps = e.steps;
    if (data_lengths != nullptr) steps = indexing::bounded(indexing::whole(data_lengths[n]) - 1, e.steps, 0) + 1;
    if (label_lengths != nullptr) {
      count = indexing::bounded(indexing::whole(label_lengths[n]), e.labels + 1, 0);
    } else {
      for (int64 i = 0; i < count; ++i) {
        if (indexing::whole(labels[n * e.labels + i]) == (e.first ? 0 : -1)) count = i;
      }
    }
    for (int64 i = threadIdx.x; i < e.labels; i += blockDim.x) {
      const int64 label = i < count ? indexing::whole(labels[n * e.labels + i]) : 0;
      path[i] = static_cast<int32>(indexing::bounded(label, e.classes, 0));
    }
    for (int64 t = threadIdx.x; t < e.steps; t += blockDim.x) {
      const T* row = x + (t * e.batch + n) * e.classes;
      double high = none(), sum = 0;
      for (int64 c = 0; c < e.classes; ++c) high = maximum(high, convert<double>(row[c]));
      for (int64 c = 0; c < e.classes; ++c) sum += ::exp(convert<double>(row[c]) - high);
      norm[t] = high + ::log(sum);
    }
    __syncthreads();
    const Sequence<T> q{e, n, steps, count, x, path, norm};
    for (int64 t = 0; t < steps; ++t) {
      const double* before = forward + (t - 1) * states;
      for (int64 s = threadIdx.x; s < states; s += blockDim.x) {
        double sum = t == 0 ? (s < 2 ? 0.0 : none()) : before[s];
        if (t > 0 && s > 0) sum = log_add(sum, before[s - 1]);
        if (t > 0 && q.skips(s)) sum = log_add(sum, before[s - 2]);
        forward[t * states + s] = sum + q.emitted(t, s);
      }
      __syncthreads();
    }
    for (int64 t = steps - 1; t >= 0; --t) {
      const double* after = backward + (t + 1) * states;
      for (int64 s = threadIdx.x; s < states; s += blockDim.x) {
        double sum = none();
        if (t == steps - 1) {
          if (s == 2 * count || (count > 0 && s == 2 * count - 1)) sum = 0;
        } else {
          sum = after[s] + q.emitted(t + 1, s);
          if (s + 1 < states) sum = log_add(sum, after[s + 1] + q.emitted(t + 1, s + 1));
          if (s + 2 < states && q.skips(s + 2)) sum = log_add(sum, after[s + 2] + q.emitted(t + 1, s + 2));
        }
        backward[t * states + s] = sum;
      }
      __syncthreads();
    }
    double total = forward[0] + backward[0];
    if (states > 1) total = log_add(total, forward[1] + backward[1]);
    const bool possible = total > none() && total < infinity<double>();
    if (threadIdx.x == 0) store(made, n, request, possible ? -total : 0.0);
    for (int64 i = threadIdx.x; i < e.steps * e.classes; i += blockDim.x) {
      const int64 t = i / e.classes, c = i % e.classes;
      double value = 0;
      if (possible && t < steps) {
        value = ::exp(q.log_probability(t, c));
        for (int64 s = c == e.blank ? 0 : 1; s <= 2 * count; s += c == e.blank ? 1 : 2) {
          if (q.state(s) == c) value -= ::exp(forward[t * states + s] + backward[t * states + s] - total);
        }
      }
      store(slope, (t * e.batch + n) * e.classes + c, slope_request, value);
    }
    __syncthreads();
  }
}

}  // namespace ctc
}  // namespace mx
