// SPDX-License-Identifier: Apache-2.0
#include "rnn_cells.h"

#include <cmath>

#include "clones.h"
#include "mx_core/philox.hpp"

namespace mx::onednn {
namespace {

#include "math32.h"

MX_INLINE float sigmoid(float x) { return 0.5f * tanh32(0.5f * x) + 0.5f; }

MX_CLONES void lstm_row(int64_t n, const float* r, const float* b, const float* c_before, float* gates, float* c,
                        float* h, float* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float i = sigmoid(gates[j] + r[j] + b[j]);
    const float f = sigmoid(gates[n + j] + r[n + j] + b[n + j]);
    const float g = tanh32(gates[2 * n + j] + r[2 * n + j] + b[2 * n + j]);
    const float o = sigmoid(gates[3 * n + j] + r[3 * n + j] + b[3 * n + j]);
    const float next = f * c_before[j] + i * g;
    gates[j] = i;
    gates[n + j] = f;
    gates[2 * n + j] = g;
    gates[3 * n + j] = o;
    c[j] = next;
    h[j] = y[j] = o * tanh32(next);
  }
}

MX_CLONES void gru_row(int64_t n, const float* r, const float* b, const float* h_before, float* gates, float* value,
                       float* h, float* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float reset = sigmoid(gates[j] + r[j] + b[j]);
    const float update = sigmoid(gates[n + j] + r[n + j] + b[n + j]);
    const float product = r[2 * n + j] + b[3 * n + j];
    const float candidate = tanh32(gates[2 * n + j] + b[2 * n + j] + reset * product);
    gates[j] = reset;
    gates[n + j] = update;
    gates[2 * n + j] = candidate;
    value[j] = product;
    h[j] = y[j] = candidate + update * (h_before[j] - candidate);
  }
}

MX_CLONES void tanh_row(int64_t n, const float* r, const float* b, const float* a, float* h, float* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) h[j] = y[j] = tanh32(a[j] + r[j] + b[j]);
}

MX_CLONES void relu_row(int64_t n, const float* r, const float* b, const float* a, float* h, float* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float x = a[j] + r[j] + b[j];
    h[j] = y[j] = x <= 0.0f ? 0.0f : x;
  }
}

MX_CLONES void lstm_row_back(int64_t n, const float* gates, const float* c, const float* c_before, const float* head,
                             const float* dh, float* dc, float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float i = gates[j], f = gates[n + j], g = gates[2 * n + j], o = gates[3 * n + j];
    const float shown = tanh32(c[j]), d_h = dh[j] + head[j];
    const float total = dc[j] + d_h * o * (1 - shown * shown);
    d[j] = total * g * i * (1 - i);
    d[n + j] = total * c_before[j] * f * (1 - f);
    d[2 * n + j] = total * i * (1 - g * g);
    d[3 * n + j] = d_h * shown * o * (1 - o);
    dc[j] = total * f;
  }
}

MX_CLONES void gru_row_back(int64_t n, const float* gates, const float* value, const float* h_before,
                            const float* head, float* dh, float* d, float* d_r) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float reset = gates[j], update = gates[n + j], candidate = gates[2 * n + j], d_h = dh[j] + head[j];
    const float d_candidate = d_h * (1 - update) * (1 - candidate * candidate);
    d[n + j] = d_r[n + j] = d_h * (h_before[j] - candidate) * update * (1 - update);
    d[j] = d_r[j] = d_candidate * value[j] * reset * (1 - reset);
    d[2 * n + j] = d_candidate;
    d_r[2 * n + j] = d_candidate * reset;
    dh[j] = d_h * update;
  }
}

MX_CLONES void tanh_row_back(int64_t n, const float* y, const float* head, const float* dh, float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) d[j] = (dh[j] + head[j]) * (1 - y[j] * y[j]);
}

MX_CLONES void relu_row_back(int64_t n, const float* y, const float* head, const float* dh, float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) d[j] = y[j] > 0.0f ? dh[j] + head[j] : 0.0f;
}

MX_CLONES void multiply_run(const float* x, const float* mask, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * mask[i];
}

}  // namespace

void cell_forward(RnnMode mode, const CellForward& s) {
  const int64_t n = s.units;
  for (int64_t row = s.begin; row < s.end; ++row) {
    float *h = s.h + row * n, *y = s.output + row * s.output_stride;
    switch (mode) {
      case RnnMode::lstm:
        lstm_row(n, s.recurrent + row * 4 * n, s.bias, s.c_before + row * n, s.gates + row * 4 * n,
                 s.value + row * n, h, y);
        break;
      case RnnMode::gru:
        gru_row(n, s.recurrent + row * 3 * n, s.bias, s.h_before + row * n, s.gates + row * 3 * n,
                s.value + row * n, h, y);
        break;
      case RnnMode::tanh: tanh_row(n, s.recurrent + row * n, s.bias, s.gates + row * n, h, y); break;
      case RnnMode::relu: relu_row(n, s.recurrent + row * n, s.bias, s.gates + row * n, h, y); break;
    }
  }
}

void cell_backward(RnnMode mode, const CellBackward& s) {
  const int64_t n = s.units;
  for (int64_t row = s.begin; row < s.end; ++row) {
    const float *head = s.head + row * s.output_stride, *y = s.gates + row * s.output_stride;
    float* dh = s.dh + row * n;
    switch (mode) {
      case RnnMode::lstm:
        lstm_row_back(n, s.gates + row * 4 * n, s.value + row * n, s.c_before + row * n, head, dh, s.dc + row * n,
                      s.d_gates + row * 4 * n);
        break;
      case RnnMode::gru:
        gru_row_back(n, s.gates + row * 3 * n, s.value + row * n, s.h_before + row * s.h_before_stride, head, dh,
                     s.d_gates + row * 3 * n, s.d_recurrent + row * 3 * n);
        break;
      case RnnMode::tanh: tanh_row_back(n, y, head, dh, s.d_gates + row * n); break;
      case RnnMode::relu: relu_row_back(n, y, head, dh, s.d_gates + row * n); break;
    }
  }
}

void multiply(const float* x, const float* mask, float* y, int64_t n) { multiply_run(x, mask, y, n); }

void draw_mask(uint64_t key, uint64_t offset, int64_t first, int64_t n, double p, float* mask) {
  const auto keep = static_cast<float>(p < 1 ? 1 / (1 - p) : 0);
  for (int64_t i = 0; i < n; i += 4) {
    const philox::Block drawn = philox::block(key, offset + static_cast<uint64_t>(first + i) / 4);
    for (int64_t k = 0; k < std::min<int64_t>(4, n - i); ++k)
      mask[i + k] = static_cast<double>(philox::uniform32(drawn.words[k])) >= p ? keep : 0.0f;
  }
}

}  // namespace mx::onednn
