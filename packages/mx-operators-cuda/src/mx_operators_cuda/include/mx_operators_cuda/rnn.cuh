// SPDX-License-Identifier: Apache-2.0
//
// One step of a recurrent layer and its gradient: a thread per row and unit. What is multiplied with weights
// is made before; gates lie side by side, those of a row in G * units elements.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace rnn {

enum Cell { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };
template <int cell> inline constexpr int gates_of = cell == kLstm ? 4 : cell == kGru ? 3 : 1;

template <class T> __device__ inline T logistic(T x) { return T(0.5) * (1 + tanh(T(0.5) * x)); }

// a = W x and r = R h come without their biases. `shown` rows lie `width` apart, those of the state before `before`.
// `gates` (G * units) and `cell` (units) are kept for the gradient; last_h and last_c may be null.
template <class T, int kind>
__device__ inline void forward(const T* a, const T* r, const T* bias_a, const T* bias_r, const T* h, const T* c,
                               T* shown, int, T* gates, int, T* cell, int, T* last_h, int request_h, T* last_c,
                               int request_c, int64 rows, int64 units, int64 before, int64 width) {
  constexpr int kGates = gates_of<kind>;
  const int64 n = rows * units, stride = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    const int64 row = i / units, unit = i % units, at = row * kGates * units + unit;
    T left[kGates], right[kGates];
    for (int g = 0; g < kGates; ++g) {
      left[g] = a[at + g * units] + bias_a[g * units + unit];
      right[g] = r[at + g * units] + bias_r[g * units + unit];
    }
    T made;
    if constexpr (kind == kLstm) {
      const T in = logistic(left[0] + right[0]), forget = logistic(left[1] + right[1]);
      const T candidate = tanh(left[2] + right[2]), out = logistic(left[3] + right[3]);
      const T state = forget * c[i] + in * candidate;
      made = out * tanh(state);
      gates[at] = in;
      gates[at + units] = forget;
      gates[at + 2 * units] = candidate;
      gates[at + 3 * units] = out;
      cell[i] = state;
      if (last_c != nullptr) store(last_c, i, request_c, state);
    } else if constexpr (kind == kGru) {
      const T reset = logistic(left[0] + right[0]), update = logistic(left[1] + right[1]);
      const T candidate = tanh(left[2] + reset * right[2]);
      made = (1 - update) * candidate + update * h[row * before + unit];
      gates[at] = reset;
      gates[at + units] = update;
      gates[at + 2 * units] = candidate;
      cell[i] = right[2];
    } else {
      const T sum = left[0] + right[0];
      made = kind == kRelu ? maximum(sum, T(0)) : tanh(sum);
    }
    shown[row * width + unit] = made;
    if (last_h != nullptr) store(last_h, i, request_h, made);
  }
}

// From head (what is above) and dh, dc (what comes after) to da, dr, and what goes to the step before but through R.
template <class T, int kind>
__device__ inline void backward(const T* head, const T* gates, const T* cell, const T* h, const T* c, const T* shown,
                                T* da, int, T* dr, int, T* dh, int, T* dc, int, int64 rows, int64 units, int64 before,
                                int64 width, int64 above) {
  constexpr int kGates = gates_of<kind>;
  const int64 n = rows * units, stride = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    const int64 row = i / units, unit = i % units, at = row * kGates * units + unit;
    const T d = dh[i] + head[row * above + unit];
    if constexpr (kind == kLstm) {
      const T in = gates[at], forget = gates[at + units], candidate = gates[at + 2 * units];
      const T out = gates[at + 3 * units], seen = tanh(cell[i]);
      const T total = dc[i] + d * out * (1 - seen * seen);
      da[at] = total * candidate * in * (1 - in);
      da[at + units] = total * c[i] * forget * (1 - forget);
      da[at + 2 * units] = total * in * (1 - candidate * candidate);
      da[at + 3 * units] = d * seen * out * (1 - out);
      dc[i] = total * forget;
      dh[i] = 0;
    } else if constexpr (kind == kGru) {
      const T reset = gates[at], update = gates[at + units], candidate = gates[at + 2 * units], right = cell[i];
      const T dn = d * (1 - update) * (1 - candidate * candidate);
      const T dz = d * (h[row * before + unit] - candidate) * update * (1 - update);
      const T d_reset = dn * right * reset * (1 - reset);
      da[at] = dr[at] = d_reset;
      da[at + units] = dr[at + units] = dz;
      da[at + 2 * units] = dn;
      dr[at + 2 * units] = dn * reset;
      dh[i] = d * update;
    } else {
      const T y = shown[row * width + unit];
      da[at] = kind == kRelu ? (y > 0 ? d : T(0)) : d * (1 - y * y);
      dh[i] = 0;
    }
  }
}

}  // namespace rnn
}  // namespace mx
