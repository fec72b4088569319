// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm on row-major memory (Ioffe and Szegedy, arXiv:1502.03167).  The operator is bound by
// memory: each channel (or block of channels, when they are the last axis) is taken through all its
// passes by one thread while it is in cache.
#include <cmath>

#include "kernels.h"
#include "loops.h"

namespace mx::onednn {
namespace {

// Calls body(first channel, channels) over shares of the channels, block by block.
template <class Body>
void for_channel_blocks(int64_t channels, const Body& body) {
  parallel_for((channels + kColumns - 1) / kColumns, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) body(b * kColumns, std::min(kColumns, channels - b * kColumns));
  });
}

void put(float* target, bool add, float value) {
  if (target != nullptr) *target = add ? *target + value : value;
}

struct Result {
  float* data;
  bool add;
  Result(const Call& call, size_t i) : data(call.wanted(i) ? call.output<float>(i) : nullptr), add(call.adds(i)) {}
  void set(int64_t c, float value) const { put(data == nullptr ? nullptr : data + c, add, value); }
};

class BatchNorm final : public Plan {
 public:
  BatchNorm(const Signature& s, const BatchNormOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o), v_(s.inputs[0].shape, o.axis), count_(static_cast<double>(v_.outer * v_.inner)) {
    require_float(s);
  }

 private:
  void execute(const Call& call) const override {
    if (v_.inner == 1) {
      for_channel_blocks(v_.length, [&](int64_t first, int64_t n) { columns(call, first, n); });
    } else {
      parallel_for(v_.length, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) channel(call, c);
      });
    }
  }

  // Statistics of channel c are known: returns the scale, records what is to be recorded.
  float settle(const Call& call, int64_t c, float mean, float variance) const {
    Result(call, 1).set(c, mean);
    Result(call, 2).set(c, variance);
    if (o_.use_batch_stats) {
      const auto keep = static_cast<float>(o_.momentum), take = static_cast<float>(1 - o_.momentum);
      float *moving_mean = call.state<float>(3) + c, *moving_var = call.state<float>(4) + c;
      *moving_mean = *moving_mean * keep + mean * take;
      *moving_var = *moving_var * keep + variance * take;
    }
    const float gamma = o_.fix_gamma ? 1.f : call.input<float>(1)[c];
    return gamma / std::sqrt(variance + static_cast<float>(o_.eps));
  }

  void channel(const Call& call, int64_t c) const {
    const float* x = call.input<float>(0) + c * v_.inner;
    const Runs runs = {v_.outer, v_.length * v_.inner, v_.inner};
    float mean = call.input<float>(3)[c], variance = call.input<float>(4)[c];
    if (o_.use_batch_stats) {
      mean = static_cast<float>(sum(x, runs) / count_);
      variance = static_cast<float>(squared_deviations(x, mean, runs) / count_);
    }
    const float scale = settle(call, c, mean, variance), beta = call.input<float>(2)[c];
    if (!call.wanted(0)) return;
    normalize(x, mean, scale, beta, call.output<float>(0) + c * v_.inner, runs, call.adds(0));
  }

  void columns(const Call& call, int64_t first, int64_t n) const {
    const float* x = call.input<float>(0) + first;
    float mean[kColumns], scale[kColumns];
    double sums[kColumns];
    if (o_.use_batch_stats) {
      column_sums(x, v_.outer, v_.length, n, sums);
      for (int64_t c = 0; c < n; ++c) mean[c] = static_cast<float>(sums[c] / count_);
      column_squared_deviations(x, mean, v_.outer, v_.length, n, sums);
    } else {
      std::copy_n(call.input<float>(3) + first, n, mean);
    }
    for (int64_t c = 0; c < n; ++c) {
      const float variance = o_.use_batch_stats ? static_cast<float>(sums[c] / count_) : call.input<float>(4)[first + c];
      scale[c] = settle(call, first + c, mean[c], variance);
    }
    if (!call.wanted(0)) return;
    float* y = call.output<float>(0) + first;
    const float* beta = call.input<float>(2) + first;
    for (int64_t r = 0; r < v_.outer; ++r) {
      normalize_each(x + r * v_.length, mean, scale, beta, y + r * v_.length, n, call.adds(0));
    }
  }

  const BatchNormOptions o_;
  const AxisView v_;
  const double count_;  // elements per channel
};

class BatchNormBackward final : public Plan {
 public:
  BatchNormBackward(const Signature& s, const BatchNormOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o), v_(s.inputs[1].shape, o.axis), count_(static_cast<double>(v_.outer * v_.inner)) {
    require_float(s);
  }

 private:
  // The data gradient is a * g + b * (x - mean) + c.
  struct Coefficients {
    float a, b, c;
  };

  void execute(const Call& call) const override {
    if (v_.inner == 1) {
      for_channel_blocks(v_.length, [&](int64_t first, int64_t n) { columns(call, first, n); });
    } else {
      parallel_for(v_.length, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) channel(call, c);
      });
    }
  }

  // What the forward pass used: the batch's statistics or the moving ones.
  const float* means(const Call& call) const { return call.input<float>(3); }
  const float* variances(const Call& call) const { return call.input<float>(4); }

  // From the sums of g and of g * (x - mean): writes the parameters' gradients.
  Coefficients settle(const Call& call, int64_t c, double total, double moment) const {
    const double inverse = 1 / std::sqrt(static_cast<double>(variances(call)[c]) + o_.eps);
    const double gamma = o_.fix_gamma ? 1.0 : call.input<float>(2)[c];
    Result(call, 1).set(c, o_.fix_gamma ? 0.f : static_cast<float>(moment * inverse));
    Result(call, 2).set(c, static_cast<float>(total));
    const double a = gamma * inverse;
    if (!o_.use_batch_stats) return {static_cast<float>(a), 0, 0};
    return {static_cast<float>(a), static_cast<float>(-a * inverse * inverse * moment / count_),
            static_cast<float>(-a * total / count_)};
  }

  void channel(const Call& call, int64_t c) const {
    const Runs runs = {v_.outer, v_.length * v_.inner, v_.inner};
    const float *g = call.input<float>(0) + c * v_.inner, *x = call.input<float>(1) + c * v_.inner;
    const float mean = means(call)[c];
    double total, moment;
    gradient_sums(g, x, mean, runs, &total, &moment);
    const Coefficients k = settle(call, c, total, moment);
    if (!call.wanted(0)) return;
    combine(g, x, mean, k.a, k.b, k.c, call.output<float>(0) + c * v_.inner, runs, call.adds(0));
  }

  void columns(const Call& call, int64_t first, int64_t n) const {
    const float *g = call.input<float>(0) + first, *x = call.input<float>(1) + first, *mean = means(call) + first;
    double totals[kColumns], moments[kColumns];
    column_gradient_sums(g, x, mean, v_.outer, v_.length, n, totals, moments);
    float a[kColumns], b[kColumns], shift[kColumns];
    for (int64_t c = 0; c < n; ++c) {
      const Coefficients k = settle(call, first + c, totals[c], moments[c]);
      a[c] = k.a;
      b[c] = k.b;
      shift[c] = k.c;
    }
    if (!call.wanted(0)) return;
    float* y = call.output<float>(0) + first;
    for (int64_t r = 0; r < v_.outer; ++r) {
      const int64_t at = r * v_.length;
      combine_each(g + at, x + at, mean, a, b, shift, y + at, n, call.adds(0));
    }
  }

  const BatchNormOptions o_;
  const AxisView v_;
  const double count_;
};

}  // namespace

PlanPtr batch_norm(const Signature& signature, const BatchNormOptions& options) {
  return std::make_unique<BatchNorm>(signature, options);
}

PlanPtr batch_norm_backward(const Signature& signature, const BatchNormOptions& options) {
  return std::make_unique<BatchNormBackward>(signature, options);
}

}  // namespace mx::onednn
