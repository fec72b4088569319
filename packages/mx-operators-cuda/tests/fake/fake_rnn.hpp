// SPDX-License-Identifier: Apache-2.0
//
// Recurrent layers by their definition, their gradient, and cuDNN's descriptors of them.  The reserve holds, in
// float64, what a forward run in training leaves for the gradient of the data, and this one for that of the parameters.
#pragma once

#include "fake_convolution.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace fake {

struct RnnData {
  int type = -1, layout = -1, steps = 0, batch = 0, width = 0;
};

struct RnnTensor {
  int type = -1;
  std::vector<int> extents, strides;
};

struct Rnn {
  enum : int { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };
  int cell = -1, type = -1, math = -1;
  bool both = false;
  int64_t inputs = 0, units = 0, layers = 0, steps = 0, batch = 0;

  int64_t gates() const { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }
  int64_t rows() const { return gates() * units; }
  int64_t ways() const { return both ? 2 : 1; }
  int64_t read(int64_t layer) const { return layer == 0 ? inputs : ways() * units; }
  size_t item() const { return type == kReal32 ? 4 : 2; }
  int64_t stacks() const { return layers * ways(); }
  // Elements before W of a layer and direction; R follows.
  int64_t matrix(int64_t stack) const {
    int64_t made = 0;
    for (int64_t i = 0; i < stack; ++i) made += rows() * (read(i / ways()) + units);
    return made;
  }
  // Elements before b_W; b_R follows.
  int64_t vector(int64_t stack) const { return matrix(stacks()) + 2 * rows() * stack; }
  int64_t parameters() const { return vector(stacks()); }
  int64_t states() const { return stacks() * batch * units; }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements) * item(); }
  // Numbers kept of a layer and direction: gates, values, states, then gradients of both products.
  int64_t kept() const { return steps * batch * (3 * rows() + 2 * units); }
  size_t reserve() const { return static_cast<size_t>(stacks() * kept()) * sizeof(double); }

  struct Kept {
    double *gates, *value, *h, *da, *dr;
  };
  Kept at(void* reserve, int64_t stack) const {
    double* const begin = static_cast<double*>(reserve) + stack * kept();
    const int64_t cells = steps * batch;
    return {begin, begin + cells * rows(), begin + cells * (rows() + units), begin + cells * (rows() + 2 * units),
            begin + cells * (2 * rows() + 2 * units)};
  }
  double get(const void* data, int64_t i) const {
    Tensor t;
    t.type = type;
    return t.get(static_cast<const char*>(data), i);
  }
  void put(void* data, int64_t i, double value) const {
    Tensor t;
    t.type = type;
    t.put(static_cast<char*>(data), i, value);
  }
  // What layer `layer` reads.
  double input(const void* x, void* reserve, int64_t layer, int64_t cell_index, int64_t j) const {
    if (layer == 0) return get(x, cell_index * inputs + j);
    return at(reserve, (layer - 1) * ways() + j / units).h[cell_index * units + j % units];
  }
  // The state before a step: of the step before it in running order, or the given one.
  int64_t before(int64_t t, bool reversed) const { return reversed ? (t + 1 < steps ? t + 1 : -1) : t - 1; }
  double state_before(const void* h, void* reserve, int64_t stack, int64_t t, int64_t n, int64_t j) const {
    const int64_t earlier = before(t, stack % ways() == 1);
    if (earlier < 0) return get(h, (stack * batch + n) * units + j);
    return at(reserve, stack).h[(earlier * batch + n) * units + j];
  }

  void forward(const void* x, const void* parameters, const void* h, const void* c, void* y, void* last_h, void* last_c,
               void* reserve) const {
    for (int64_t stack = 0; stack < stacks(); ++stack) {
      const bool reversed = stack % ways() == 1;
      for (int64_t step = 0; step < steps; ++step) {
        const int64_t t = reversed ? steps - 1 - step : step;
        for (int64_t n = 0; n < batch; ++n) one_step(x, parameters, h, c, reserve, stack, t, n);
      }
      const Kept kept = at(reserve, stack);
      const int64_t end = reversed ? 0 : steps - 1;
      for (int64_t i = 0; i < batch * units; ++i) {
        if (last_h != nullptr) put(last_h, stack * batch * units + i, kept.h[end * batch * units + i]);
        if (last_c != nullptr) put(last_c, stack * batch * units + i, kept.value[end * batch * units + i]);
      }
    }
    for (int64_t way = 0; way < ways(); ++way) {
      const Kept kept = at(reserve, (layers - 1) * ways() + way);
      for (int64_t i = 0; i < steps * batch; ++i) {
        for (int64_t j = 0; j < units; ++j) put(y, (i * ways() + way) * units + j, kept.h[i * units + j]);
      }
    }
  }

  void one_step(const void* x, const void* parameters, const void* h, const void* c, void* reserve, int64_t stack,
                int64_t t, int64_t n) const {
    const int64_t layer = stack / ways(), columns = read(layer), w = matrix(stack), r = w + rows() * columns;
    const int64_t cell_index = t * batch + n;
    std::vector<double> a(static_cast<size_t>(rows())), b(a.size());
    for (int64_t row = 0; row < rows(); ++row) {
      double sum = get(parameters, vector(stack) + row), other = get(parameters, vector(stack) + rows() + row);
      for (int64_t j = 0; j < columns; ++j) {
        sum += get(parameters, w + row * columns + j) * input(x, reserve, layer, cell_index, j);
      }
      for (int64_t j = 0; j < units; ++j) {
        other += get(parameters, r + row * units + j) * state_before(h, reserve, stack, t, n, j);
      }
      a[static_cast<size_t>(row)] = sum;
      b[static_cast<size_t>(row)] = other;
    }
    const Kept kept = at(reserve, stack);
    double* const gates = kept.gates + cell_index * rows();
    const auto sum = [&](int64_t gate, int64_t j) {
      return a[static_cast<size_t>(gate * units + j)] + b[static_cast<size_t>(gate * units + j)];
    };
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    for (int64_t j = 0; j < units; ++j) {
      double& shown = kept.h[cell_index * units + j];
      double& value = kept.value[cell_index * units + j];
      if (cell == kRelu || cell == kTanh) {
        shown = gates[j] = cell == kTanh ? std::tanh(sum(0, j)) : std::fmax(sum(0, j), 0);
      } else if (cell == kLstm) {
        for (int64_t g = 0; g < 4; ++g) gates[g * units + j] = g == 2 ? std::tanh(sum(g, j)) : sigmoid(sum(g, j));
        value = gates[units + j] * cell_before(c, reserve, stack, t, n, j) + gates[j] * gates[2 * units + j];
        shown = gates[3 * units + j] * std::tanh(value);
      } else {
        value = b[static_cast<size_t>(2 * units + j)];
        for (int64_t g = 0; g < 2; ++g) gates[g * units + j] = sigmoid(sum(g, j));
        gates[2 * units + j] = std::tanh(a[static_cast<size_t>(2 * units + j)] + gates[j] * value);
        const double z = gates[units + j];
        shown = (1 - z) * gates[2 * units + j] + z * state_before(h, reserve, stack, t, n, j);
      }
    }
  }
  double cell_before(const void* c, void* reserve, int64_t stack, int64_t t, int64_t n, int64_t j) const {
    const int64_t earlier = before(t, stack % ways() == 1);
    if (earlier < 0) return get(c, (stack * batch + n) * units + j);
    return at(reserve, stack).value[(earlier * batch + n) * units + j];
  }

  void backward_data(const void* parameters, const void* h, const void* c, const void* dy, const void* d_last_h,
                     const void* d_last_c, void* dx, void* dh, void* dc, void* reserve) const {
    const int64_t cells = steps * batch;
    std::vector<double> heads(static_cast<size_t>(cells * ways() * units));
    for (size_t i = 0; i < heads.size(); ++i) heads[i] = get(dy, static_cast<int64_t>(i));
    for (int64_t layer = layers - 1; layer >= 0; --layer) {
      const int64_t columns = read(layer);
      std::vector<double> below(static_cast<size_t>(cells * columns));
      for (int64_t way = 0; way < ways(); ++way) {
        const int64_t stack = layer * ways() + way, w = matrix(stack), first = stack * batch * units;
        std::vector<double> of_h(static_cast<size_t>(batch * units)), of_c(of_h.size());
        for (int64_t i = 0; i < batch * units; ++i) {
          if (d_last_h != nullptr) of_h[static_cast<size_t>(i)] = get(d_last_h, first + i);
          if (d_last_c != nullptr) of_c[static_cast<size_t>(i)] = get(d_last_c, first + i);
        }
        for (int64_t step = steps - 1; step >= 0; --step) {
          const int64_t t = way == 1 ? steps - 1 - step : step;
          for (int64_t n = 0; n < batch; ++n) {
            const double* head = &heads[static_cast<size_t>(((t * batch + n) * ways() + way) * units)];
            step_back(parameters, h, c, reserve, stack, t, n, head, &of_h[static_cast<size_t>(n * units)],
                      &of_c[static_cast<size_t>(n * units)]);
            const double* da = at(reserve, stack).da + (t * batch + n) * rows();
            for (int64_t j = 0; j < columns; ++j) {
              double& sum = below[static_cast<size_t>((t * batch + n) * columns + j)];
              for (int64_t row = 0; row < rows(); ++row) sum += da[row] * get(parameters, w + row * columns + j);
            }
          }
        }
        for (int64_t i = 0; i < batch * units; ++i) {
          if (dh != nullptr) put(dh, first + i, of_h[static_cast<size_t>(i)]);
          if (dc != nullptr) put(dc, first + i, of_c[static_cast<size_t>(i)]);
        }
      }
      heads = std::move(below);
    }
    for (size_t i = 0; i < heads.size(); ++i) put(dx, static_cast<int64_t>(i), heads[i]);
  }

  void step_back(const void* parameters, const void* h, const void* c, void* reserve, int64_t stack, int64_t t,
                 int64_t n, const double* head, double* dh, double* dc) const {
    const Kept kept = at(reserve, stack);
    const int64_t index = t * batch + n, r = matrix(stack) + rows() * read(stack / ways());
    const double* gates = kept.gates + index * rows();
    double *da = kept.da + index * rows(), *dr = kept.dr + index * rows();
    std::vector<double> kept_h(static_cast<size_t>(units));
    for (int64_t j = 0; j < units; ++j) {
      const double d = dh[j] + head[j], value = kept.value[index * units + j];
      if (cell == kRelu || cell == kTanh) {
        da[j] = dr[j] = cell == kTanh ? d * (1 - gates[j] * gates[j]) : gates[j] > 0 ? d : 0;
      } else if (cell == kLstm) {
        const double i = gates[j], f = gates[units + j], g = gates[2 * units + j], o = gates[3 * units + j];
        const double shown = std::tanh(value), total = dc[j] + d * o * (1 - shown * shown);
        da[j] = total * g * i * (1 - i);
        da[units + j] = total * cell_before(c, reserve, stack, t, n, j) * f * (1 - f);
        da[2 * units + j] = total * i * (1 - g * g);
        da[3 * units + j] = d * shown * o * (1 - o);
        for (int64_t gate = 0; gate < 4; ++gate) dr[gate * units + j] = da[gate * units + j];
        dc[j] = total * f;
      } else {
        const double reset = gates[j], update = gates[units + j], candidate = gates[2 * units + j];
        const double of_n = d * (1 - update) * (1 - candidate * candidate);
        da[j] = dr[j] = of_n * value * reset * (1 - reset);
        da[units + j] = dr[units + j] =
            d * (state_before(h, reserve, stack, t, n, j) - candidate) * update * (1 - update);
        da[2 * units + j] = of_n;
        dr[2 * units + j] = of_n * reset;
        kept_h[static_cast<size_t>(j)] = d * update;
      }
    }
    for (int64_t j = 0; j < units; ++j) {
      dh[j] = kept_h[static_cast<size_t>(j)];
      for (int64_t row = 0; row < rows(); ++row) dh[j] += dr[row] * get(parameters, r + row * units + j);
    }
  }

  void backward_parameters(const void* x, const void* h, void* d_parameters, void* reserve) const {
    std::vector<double> sums(static_cast<size_t>(parameters()));
    for (int64_t stack = 0; stack < stacks(); ++stack) {
      const Kept kept = at(reserve, stack);
      const int64_t columns = read(stack / ways()), w = matrix(stack), r = w + rows() * columns, b = vector(stack);
      for (int64_t index = 0; index < steps * batch; ++index) {
        for (int64_t row = 0; row < rows(); ++row) {
          const double da = kept.da[index * rows() + row], dr = kept.dr[index * rows() + row];
          for (int64_t j = 0; j < columns; ++j) {
            sums[static_cast<size_t>(w + row * columns + j)] += da * input(x, reserve, stack / ways(), index, j);
          }
          for (int64_t j = 0; j < units; ++j) {
            sums[static_cast<size_t>(r + row * units + j)] +=
                dr * state_before(h, reserve, stack, index / batch, index % batch, j);
          }
          sums[static_cast<size_t>(b + row)] += da;
          sums[static_cast<size_t>(b + rows() + row)] += dr;
        }
      }
    }
    for (int64_t i = 0; i < parameters(); ++i) {
      put(d_parameters, i, get(d_parameters, i) + sums[static_cast<size_t>(i)]);
    }
  }

  std::string text() const {
    static const char* const cells[] = {"rnn_relu", "rnn_tanh", "lstm", "gru"};
    const char* name = type == kReal32 ? " float32" : type == kReal16 ? " float16" : " bfloat16";
    return std::string(cells[cell]) + name + " x=" + std::to_string(steps) + "," + std::to_string(batch) + "," +
           std::to_string(inputs) + " units=" + std::to_string(units) + " layers=" + std::to_string(layers) +
           (both ? " both" : "") + " math=" + std::to_string(math);
  }
};

}  // namespace fake
