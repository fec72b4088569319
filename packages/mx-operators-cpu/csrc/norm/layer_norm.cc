// SPDX-License-Identifier: Apache-2.0
//
// LayerNorm on row-major memory (Ba et al., arXiv:1607.06450).  Data is seen as (outer, length,
// inner) with the normalised axis in the middle; inner == 1 is the usual last axis, which BFloat16 may
// lie along, too: its rows are upcast, normalised in float32 and rounded.
#include <algorithm>
#include <cmath>

#include "common/shape.hpp"
#include "common/bfloat16.hpp"
#include "norm/norm.hpp"
#include "norm/channel_loops.hpp"
#include "norm/scaled_rows.hpp"
#include "common/float_types.hpp"

namespace mx::cpu {
namespace {

// Gradients of parameters are summed over parts of the rows, which do not depend on the number of threads.
constexpr int64_t kPartRows = 16;   // at least
constexpr int64_t kMostParts = 64;

template <class T>
void store(T* target, T value, bool add) {
  *target = add ? *target + value : value;
}

template <class T>
class LayerNorm final : public Plan {
 public:
  LayerNorm(const Signature& s, const LayerNormOptions& o)
      : Plan(counted(s, 3, 3), bandwidth_cost(s)), v_(s.inputs[0].shape, o.axis), eps_(o.eps) {
    const int64_t n = s.inputs[0].size(), rows = v_.outer * v_.inner;
    require_sizes(s.inputs, {n, v_.length, v_.length});
    require_sizes(s.outputs, {n, rows, rows});
  }

 private:
  void execute(const Call& call) const override {
    if (v_.inner == 1) {
      const int64_t several = block_channels(v_.length);
      parallel_shares(v_.outer, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r += several) rows(call, r, std::min(several, end - r));
      });
      return;
    }
    const int64_t blocks = (v_.inner + kBlockChannels - 1) / kBlockChannels;
    parallel_shares(v_.outer * blocks, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b % blocks * kBlockChannels;
        columns(call, b / blocks, first, std::min(kBlockChannels, v_.inner - first));
      }
    });
  }

  // Records the statistics of group i and returns 1 / std.
  T finish(const Call& call, int64_t i, double mean, double variance) const {
    const double std = std::sqrt(variance + eps_);
    if (call.wanted(1)) store(call.output<T>(1) + i, static_cast<T>(mean), call.adds(1));
    if (call.wanted(2)) store(call.output<T>(2) + i, static_cast<T>(std), call.adds(2));
    return static_cast<T>(1 / std);
  }

  // Some rows at a time: short ones are not worth a call each.
  void rows(const Call& call, int64_t first, int64_t count) const {
    const int64_t n = v_.length;
    const T *x = call.input<T>(0) + first * n, *gamma = call.input<T>(1), *beta = call.input<T>(2);
    const Block block = {1, count * n, count, n};
    const auto length = static_cast<double>(n);
    double result[kBlockChannels];
    T mean[kBlockChannels];
    sums(x, block, result);
    for (int64_t r = 0; r < count; ++r) mean[r] = static_cast<T>(result[r] / length);
    squared_deviations(x, mean, block, result);
    for (int64_t r = 0; r < count; ++r) {
      const T inverse = finish(call, first + r, mean[r], result[r] / length);
      if (call.wanted(0))
        normalize_scaled(x + r * n, mean[r], inverse, gamma, beta, call.output<T>(0) + (first + r) * n, n,
                         call.adds(0));
    }
  }

  void columns(const Call& call, int64_t o, int64_t first, int64_t n) const {
    const int64_t at = o * v_.length * v_.inner + first;
    const T* x = call.input<T>(0) + at;
    const auto length = static_cast<double>(v_.length);
    const Block block = {v_.length, v_.inner, n, 1};
    double result[kBlockChannels];
    T mean[kBlockChannels], inverse[kBlockChannels], scale[kBlockChannels], shift[kBlockChannels];
    sums(x, block, result);
    for (int64_t c = 0; c < n; ++c) mean[c] = static_cast<T>(result[c] / length);
    squared_deviations(x, mean, block, result);
    for (int64_t c = 0; c < n; ++c) inverse[c] = finish(call, o * v_.inner + first + c, mean[c], result[c] / length);
    if (!call.wanted(0)) return;
    for (int64_t l = 0; l < v_.length; ++l) {
      const T gamma = call.input<T>(1)[l];
      std::fill_n(shift, n, call.input<T>(2)[l]);
      for (int64_t c = 0; c < n; ++c) scale[c] = inverse[c] * gamma;
      normalize(x + l * v_.inner, mean, scale, shift, call.output<T>(0) + at + l * v_.inner, {1, n, n, 1},
                call.adds(0));
    }
  }

  const AxisView v_;
  const double eps_;
};

class LowLayerNorm final : public Plan {
 public:
  LowLayerNorm(const Signature& s, const LayerNormOptions& o)
      : Plan(counted(s, 3, 3), bandwidth_cost(s)), v_(s.inputs[0].shape, o.axis), eps_(o.eps) {
    if (v_.inner != 1) throw Unsupported{};
    const int64_t n = s.inputs[0].size();
    require_sizes(s.inputs, {n, v_.length, v_.length});
    require_sizes(s.outputs, {n, v_.outer, v_.outer});
    // gamma and beta, then per thread a row as it is and as it becomes.
    add_scratch(static_cast<size_t>(2 + 2 * threads()) * static_cast<size_t>(v_.length) * sizeof(float));
  }

 private:
  void execute(const Call& call) const override {
    auto* wide = static_cast<float*>(call.context.scratch[0]);
    for (size_t i = 0; i < 2; ++i)
      convert(call.input<BFloat16>(1 + i), wide + static_cast<int64_t>(i) * v_.length, v_.length);
    parallel_shares(v_.outer, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r) row(call, r, wide, wide + (2 + 2 * thread) * v_.length);
    });
  }

  void row(const Call& call, int64_t r, const float* gamma, float* x) const {
    const int64_t n = v_.length;
    const float* beta = gamma + n;
    float* y = x + n;
    convert(call.input<BFloat16>(0) + r * n, x, n);
    double result;
    sums(x, run_of(n), &result);
    const auto mean = static_cast<float>(result / static_cast<double>(n));
    squared_deviations(x, &mean, run_of(n), &result);
    const double std = std::sqrt(result / static_cast<double>(n) + eps_);
    if (call.wanted(1)) store(call.output<float>(1) + r, mean, call.adds(1));
    if (call.wanted(2)) store(call.output<float>(2) + r, static_cast<float>(std), call.adds(2));
    if (!call.wanted(0)) return;
    BFloat16* to = call.output<BFloat16>(0) + r * n;
    if (call.adds(0)) convert(to, y, n);
    normalize_scaled(x, mean, static_cast<float>(1 / std), gamma, beta, y, n, call.adds(0));
    convert(y, to, n);
  }

  const AxisView v_;
  const double eps_;
};

template <class T>
class LayerNormBackward final : public Plan {
 public:
  LayerNormBackward(const Signature& s, const LayerNormOptions& o)
      : Plan(counted(s, 5, 3), bandwidth_cost(s)), v_(s.inputs[1].shape, o.axis),
        parts_(std::clamp<int64_t>(v_.outer / kPartRows, 1, kMostParts)) {
    const int64_t n = s.inputs[1].size(), rows = v_.outer * v_.inner;
    require_sizes(s.inputs, {n, n, v_.length, rows, rows});
    require_sizes(s.outputs, {n, v_.length, v_.length});
    // Per part: gradients of gamma and beta.
    add_scratch(static_cast<size_t>(parts_ * 2 * v_.length) * sizeof(T));
  }

 private:
  void execute(const Call& call) const override {
    const int64_t n = v_.length;
    auto* partial = static_cast<T*>(call.context.scratch[0]);
    std::fill_n(partial, parts_ * 2 * n, T(0));
    parallel_for(parts_, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) part(call, p, partial + p * 2 * n);
    });
    for (int64_t l = 0; l < n; ++l) {
      T gamma_grad = 0, beta_grad = 0;
      for (int64_t p = 0; p < parts_; ++p) {
        gamma_grad += partial[p * 2 * n + l];
        beta_grad += partial[p * 2 * n + n + l];
      }
      if (call.wanted(1)) store(call.output<T>(1) + l, gamma_grad, call.adds(1));
      if (call.wanted(2)) store(call.output<T>(2) + l, beta_grad, call.adds(2));
    }
  }

  void part(const Call& call, int64_t p, T* gamma_grad) const {
    T* beta_grad = gamma_grad + v_.length;
    for (int64_t o = v_.outer * p / parts_; o < v_.outer * (p + 1) / parts_; ++o) {
      if (v_.inner == 1) {
        row(call, o, gamma_grad, beta_grad);
      } else {
        for (int64_t i = 0; i < v_.inner; ++i) strided(call, o, i, gamma_grad, beta_grad);
      }
    }
  }

  void row(const Call& call, int64_t r, T* gamma_grad, T* beta_grad) const {
    const int64_t n = v_.length;
    const T *g = call.input<T>(0) + r * n, *x = call.input<T>(1) + r * n, *gamma = call.input<T>(2);
    const T mean = call.input<T>(3)[r], inverse = 1 / call.input<T>(4)[r];
    double total, moment;
    scaled_gradient_sums(g, x, gamma, mean, inverse, n, gamma_grad, beta_grad, &total, &moment);
    if (!call.wanted(0)) return;
    const auto count = static_cast<double>(n);
    combine_scaled(g, x, gamma, mean, inverse, static_cast<T>(-inverse * inverse * inverse * moment / count),
                   static_cast<T>(-inverse * total / count), call.output<T>(0) + r * n, n, call.adds(0));
  }

  void strided(const Call& call, int64_t o, int64_t i, T* gamma_grad, T* beta_grad) const {
    const int64_t at = o * v_.length * v_.inner + i, group = o * v_.inner + i;
    const T *g = call.input<T>(0) + at, *x = call.input<T>(1) + at, *gamma = call.input<T>(2);
    const T mean = call.input<T>(3)[group], inverse = 1 / call.input<T>(4)[group];
    double total = 0, moment = 0;
    for (int64_t l = 0; l < v_.length; ++l) {
      const T d = g[l * v_.inner], centred = x[l * v_.inner] - mean;
      gamma_grad[l] += d * centred * inverse;
      beta_grad[l] += d;
      total += d * gamma[l];
      moment += static_cast<double>(d * gamma[l]) * centred;
    }
    if (!call.wanted(0)) return;
    const auto count = static_cast<double>(v_.length);
    const auto b = static_cast<T>(-inverse * inverse * inverse * moment / count);
    const auto c = static_cast<T>(-inverse * total / count);
    T* y = call.output<T>(0) + at;
    for (int64_t l = 0; l < v_.length; ++l) {
      const int64_t e = l * v_.inner;
      store(y + e, inverse * gamma[l] * g[e] + b * (x[e] - mean) + c, call.adds(0));
    }
  }

  const AxisView v_;
  const int64_t parts_;
};

}  // namespace

PlanPtr layer_norm(const Signature& signature, const LayerNormOptions& options) {
  counted(signature, 3, 3);
  if (all_double(signature)) return std::make_unique<LayerNorm<double>>(signature, options);
  if (all_float(signature, {}, {1, 2})) return std::make_unique<LayerNorm<float>>(signature, options);
  return std::make_unique<LowLayerNorm>(signature, options);
}

PlanPtr layer_norm_backward(const Signature& signature, const LayerNormOptions& options) {
  if (all_double(signature)) return std::make_unique<LayerNormBackward<double>>(signature, options);
  require_float(signature);
  return std::make_unique<LayerNormBackward<float>>(signature, options);
}

}  // namespace mx::cpu
