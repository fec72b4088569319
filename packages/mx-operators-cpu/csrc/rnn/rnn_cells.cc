// SPDX-License-Identifier: Apache-2.0
#include "rnn/rnn_cells.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/clones.hpp"
#include "common/elements.hpp"
#include "common/math64.hpp"
#include "mx_core/philox.hpp"

namespace mx::cpu {
namespace {

MX_INLINE float tangent(float x) { return tanh32(x); }
MX_INLINE double tangent(double x) { return tanh64(x); }
MX_INLINE float sigmoid(float x) { return 0.5f * tanh32(0.5f * x) + 0.5f; }
MX_INLINE double sigmoid(double x) { return sigmoid64(x); }

template <class T>
MX_INLINE void lstm_row(int64_t n, const T* r, const T* b, const T* gates, const T* c_before, T* c,
                        T* kept, T* h, T* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = sigmoid(gates[j] + r[j] + b[j]);
    const T f = sigmoid(gates[n + j] + r[n + j] + b[n + j]);
    const T g = tangent(gates[2 * n + j] + r[2 * n + j] + b[2 * n + j]);
    const T o = sigmoid(gates[3 * n + j] + r[3 * n + j] + b[3 * n + j]);
    const T next = f * c_before[j] + i * g;
    kept[j] = i;
    kept[n + j] = f;
    kept[2 * n + j] = g;
    kept[3 * n + j] = o;
    c[j] = next;
    h[j] = y[j] = o * tangent(next);
  }
}

template <class T>
MX_INLINE void gru_row(int64_t n, const T* r, const T* b, const T* gates, const T* h_before,
                       T* kept, T* value, T* h, T* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T reset = sigmoid(gates[j] + r[j] + b[j]);
    const T update = sigmoid(gates[n + j] + r[n + j] + b[n + j]);
    const T product = r[2 * n + j] + b[3 * n + j];
    const T candidate = tangent(gates[2 * n + j] + b[2 * n + j] + reset * product);
    kept[j] = reset;
    kept[n + j] = update;
    kept[2 * n + j] = candidate;
    value[j] = product;
    h[j] = y[j] = candidate + update * (h_before[j] - candidate);
  }
}

template <class T>
MX_INLINE void tanh_row(int64_t n, const T* r, const T* b, const T* a, T* h, T* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) h[j] = y[j] = tangent(a[j] + r[j] + b[j]);
}

template <class T>
MX_INLINE void relu_row(int64_t n, const T* r, const T* b, const T* a, T* h, T* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T x = a[j] + r[j] + b[j];
    h[j] = y[j] = x <= T(0) ? T(0) : x;
  }
}

template <class T>
MX_INLINE void lstm_row_back(int64_t n, const T* gates, const T* c, const T* c_before, const T* head,
                             const Wide<T>* dh, Wide<T>* dc, T* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const Wide<T> i = get(gates, j), f = get(gates, n + j), g = get(gates, 2 * n + j), o = get(gates, 3 * n + j);
    const Wide<T> shown = tangent(get(c, j)), d_h = dh[j] + get(head, j);
    const Wide<T> total = dc[j] + d_h * o * (1 - shown * shown);
    put(d, j, total * g * i * (1 - i));
    put(d, n + j, total * get(c_before, j) * f * (1 - f));
    put(d, 2 * n + j, total * i * (1 - g * g));
    put(d, 3 * n + j, d_h * shown * o * (1 - o));
    dc[j] = total * f;
  }
}

template <class T>
MX_INLINE void gru_row_back(int64_t n, const T* gates, const T* value, const T* h_before, const T* head, Wide<T>* dh,
                            T* d, T* d_r) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const Wide<T> reset = get(gates, j), update = get(gates, n + j), candidate = get(gates, 2 * n + j);
    const Wide<T> d_h = dh[j] + get(head, j);
    const Wide<T> d_candidate = d_h * (1 - update) * (1 - candidate * candidate);
    const Wide<T> d_update = d_h * (get(h_before, j) - candidate) * update * (1 - update);
    const Wide<T> d_reset = d_candidate * get(value, j) * reset * (1 - reset);
    put(d, j, d_reset);
    put(d_r, j, d_reset);
    put(d, n + j, d_update);
    put(d_r, n + j, d_update);
    put(d, 2 * n + j, d_candidate);
    put(d_r, 2 * n + j, d_candidate * reset);
    dh[j] = d_h * update;
  }
}

template <class T>
MX_INLINE void tanh_row_back(int64_t n, const T* y, const T* head, const Wide<T>* dh, T* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) put(d, j, (dh[j] + get(head, j)) * (1 - get(y, j) * get(y, j)));
}

template <class T>
MX_INLINE void relu_row_back(int64_t n, const T* y, const T* head, const Wide<T>* dh, T* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) put(d, j, get(y, j) > Wide<T>(0) ? dh[j] + get(head, j) : Wide<T>(0));
}

template <class T>
MX_INLINE void multiply_run(const T* x, const T* mask, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) put(y, i, get(x, i) * get(mask, i));
}

}  // namespace

template <class T>
void cell_forward(RnnMode mode, const CellForward<T>& s) {
  const int64_t n = s.units;
  for (int64_t row = s.begin; row < s.end; ++row) {
    T *h = s.h + row * n, *y = s.output + row * s.output_stride;
    switch (mode) {
      case RnnMode::lstm:
        best_clone<lstm_row<T>>(n, s.recurrent + row * 4 * n, s.bias, s.gates + row * 4 * n, s.state_before + row * n,
                                s.value + row * n, s.kept + row * 4 * n, h, y);
        break;
      case RnnMode::gru:
        best_clone<gru_row<T>>(n, s.recurrent + row * 3 * n, s.bias, s.gates + row * 3 * n, s.state_before + row * n,
                               s.kept + row * 3 * n, s.value + row * n, h, y);
        break;
      case RnnMode::tanh: best_clone<tanh_row<T>>(n, s.recurrent + row * n, s.bias, s.gates + row * n, h, y); break;
      case RnnMode::relu: best_clone<relu_row<T>>(n, s.recurrent + row * n, s.bias, s.gates + row * n, h, y); break;
    }
  }
}

// Rows are computed in place and rounded while they are in the nearest cache: mixed types take twice as many registers.
template <>
void cell_forward(RnnMode mode, const CellForward<BFloat16>& s) {
  const int64_t n = s.units, gates = mode == RnnMode::lstm ? 4 : mode == RnnMode::gru ? 3 : 1;
  for (int64_t row = s.begin; row < s.end; ++row) {
    float *r = s.recurrent + row * gates * n, *g = s.gates + row * gates * n, *state = s.state + row * n;
    float *shown = r, *value = state;
    switch (mode) {
      case RnnMode::lstm: best_clone<lstm_row<float>>(n, r, s.bias, g, s.state_before + row * n, state, g, r, r); break;
      case RnnMode::gru:
        shown = state, value = r + 2 * n;
        best_clone<gru_row<float>>(n, r, s.bias, g, s.state_before + row * n, g, value, state, state);
        break;
      case RnnMode::tanh: best_clone<tanh_row<float>>(n, r, s.bias, g, r, r); break;
      case RnnMode::relu: best_clone<relu_row<float>>(n, r, s.bias, g, r, r); break;
    }
    BFloat16* h = s.h + row * n;
    round(shown, h, n);
    std::copy_n(h, n, s.output + row * s.output_stride);
    if (s.kept == nullptr) continue;
    round(g, s.kept + row * gates * n, gates * n);
    round(value, s.value + row * n, n);
  }
}

template <class T>
void cell_backward(RnnMode mode, const CellBackward<T>& s) {
  const int64_t n = s.units;
  for (int64_t row = s.begin; row < s.end; ++row) {
    const T *head = s.head + row * s.output_stride, *y = s.gates + row * s.output_stride;
    Wide<T>* dh = s.dh + row * n;
    switch (mode) {
      case RnnMode::lstm:
        best_clone<lstm_row_back<T>>(n, s.gates + row * 4 * n, s.value + row * n, s.c_before + row * n, head, dh,
                                     s.dc + row * n, s.d_gates + row * 4 * n);
        break;
      case RnnMode::gru:
        best_clone<gru_row_back<T>>(n, s.gates + row * 3 * n, s.value + row * n,
                                    s.h_before + row * s.h_before_stride, head, dh,
                                    s.d_gates + row * 3 * n, s.d_recurrent + row * 3 * n);
        break;
      case RnnMode::tanh: best_clone<tanh_row_back<T>>(n, y, head, dh, s.d_gates + row * n); break;
      case RnnMode::relu: best_clone<relu_row_back<T>>(n, y, head, dh, s.d_gates + row * n); break;
    }
  }
}

template <class T>
void multiply(const T* x, const T* mask, T* y, int64_t n) {
  best_clone<multiply_run<T>>(x, mask, y, n);
}

template <class T>
void draw_mask(uint64_t key, uint64_t offset, int64_t first, int64_t n, double p, T* mask) {
  const auto keep = static_cast<Wide<T>>(p < 1 ? 1 / (1 - p) : 0);
  for (int64_t i = 0; i < n; i += 4) {
    const philox::Block drawn = philox::block(key, offset + static_cast<uint64_t>(first + i) / 4);
    for (int64_t k = 0; k < std::min<int64_t>(4, n - i); ++k)
      mask[i + k] = T(static_cast<double>(philox::uniform32(drawn.words[k])) >= p ? keep : Wide<T>(0));
  }
}

#define MX_CELLS(T)                                                                  \
  template void cell_backward(RnnMode, const CellBackward<T>&);                      \
  template void multiply(const T*, const T*, T*, int64_t);                           \
  template void draw_mask(uint64_t, uint64_t, int64_t, int64_t, double, T*);

template void cell_forward(RnnMode, const CellForward<float>&);
template void cell_forward(RnnMode, const CellForward<double>&);
MX_CELLS(float)
MX_CELLS(double)
MX_CELLS(BFloat16)

}  // namespace mx::cpu
