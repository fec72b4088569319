// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm on row-major memory (Ioffe and Szegedy, arXiv:1502.03167).  The operator is bound by
// memory: a block of channels is taken through all its passes by one thread while it is in cache.
#include <cmath>

#include "kernels.h"
#include "loops.h"

namespace mx::onednn {
namespace {

// Calls body(first channel, block) over the team's shares of the channels.
template <class Body>
void for_channel_blocks(const AxisView& v, const Body& body) {
  const int64_t width = block_channels(v.inner), step = v.length * v.inner;
  parallel_for((v.length + width - 1) / width, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * width;
      body(first, Block{v.outer, step, std::min(width, v.length - first), v.inner});
    }
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
      : Plan(counted(s, 5, 3), bandwidth_cost(s)), o_(o), v_(s.inputs[0].shape, o.axis),
        count_(static_cast<double>(v_.outer * v_.inner)) {
    require_float(s);
    const int64_t n = s.inputs[0].size(), c = v_.length;
    require_sizes(s.inputs, {n, c, c, c, c});
    require_sizes(s.outputs, {n, c, c});
    if (!o.use_batch_stats) set_scratch(static_cast<size_t>(c) * sizeof(float));
  }

 private:
  void execute(const Call& call) const override {
    if (!o_.use_batch_stats) return normalize_by_moving(call);
    for_channel_blocks(v_, [&](int64_t first, const Block& block) { normalize_block(call, first, block); });
  }

  // What is known before is applied in the order of memory.
  void normalize_by_moving(const Call& call) const {
    const float *mean = call.input<float>(3), *variance = call.input<float>(4);
    auto* scale = static_cast<float*>(call.context.scratch[0]);
    for (int64_t c = 0; c < v_.length; ++c) scale[c] = settle(call, c, mean[c], variance[c]);
    if (!call.wanted(0)) return;
    const bool streams = !call.adds(0) && 2 * signature_.outputs[0].bytes() > kCacheBytes;
    const int64_t step = v_.length * v_.inner;
    const auto apply = [&](int64_t row, int64_t first, const Block& block) {
      const int64_t at = row * step + first * v_.inner;
      const float *x = call.input<float>(0) + at, *shift = call.input<float>(2) + first;
      float* y = call.output<float>(0) + at;
      if (streams)
        normalize_past_caches(x, mean + first, scale + first, shift, y, block);
      else
        normalize(x, mean + first, scale + first, shift, y, block, call.adds(0));
    };
    if (v_.inner == 1) {
      parallel_for(v_.outer, [&](int64_t begin, int64_t end) { apply(begin, 0, {end - begin, step, v_.length, 1}); });
      return;
    }
    parallel_for(v_.outer * v_.length, [&](int64_t begin, int64_t end) {
      for (int64_t next = begin; begin < end; begin = next) {
        const int64_t row = begin / v_.length;
        next = std::min(end, (row + 1) * v_.length);
        apply(row, begin - row * v_.length, {1, step, next - begin, v_.inner});
      }
    });
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

  void normalize_block(const Call& call, int64_t first, const Block& block) const {
    const float* x = call.input<float>(0) + first * v_.inner;
    float mean[kBlockChannels], scale[kBlockChannels];
    double result[kBlockChannels];
    sums(x, block, result);
    for (int64_t c = 0; c < block.channels; ++c) mean[c] = static_cast<float>(result[c] / count_);
    squared_deviations(x, mean, block, result);
    for (int64_t c = 0; c < block.channels; ++c)
      scale[c] = settle(call, first + c, mean[c], static_cast<float>(result[c] / count_));
    if (!call.wanted(0)) return;
    normalize(x, mean, scale, call.input<float>(2) + first, call.output<float>(0) + first * v_.inner, block,
              call.adds(0));
  }

  const BatchNormOptions o_;
  const AxisView v_;
  const double count_;  // elements per channel
};

class BatchNormBackward final : public Plan {
 public:
  BatchNormBackward(const Signature& s, const BatchNormOptions& o)
      : Plan(counted(s, 7, 3), bandwidth_cost(s)), o_(o), v_(s.inputs[1].shape, o.axis),
        count_(static_cast<double>(v_.outer * v_.inner)) {
    require_float(s);
    const int64_t n = s.inputs[1].size(), c = v_.length;
    require_sizes(s.inputs, {n, n, c, c, c, c, c});
    require_sizes(s.outputs, {n, c, c});
  }

 private:
  // The data gradient is a * g + b * (x - mean) + c.
  struct Coefficients {
    float a, b, c;
  };

  void execute(const Call& call) const override {
    for_channel_blocks(v_, [&](int64_t first, const Block& block) { differentiate_block(call, first, block); });
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

  void differentiate_block(const Call& call, int64_t first, const Block& block) const {
    const int64_t at = first * v_.inner;
    const float *g = call.input<float>(0) + at, *x = call.input<float>(1) + at, *mean = means(call) + first;
    double totals[kBlockChannels], moments[kBlockChannels];
    gradient_sums(g, x, mean, block, totals, moments);
    float a[kBlockChannels], b[kBlockChannels], c[kBlockChannels];
    for (int64_t i = 0; i < block.channels; ++i) {
      const Coefficients k = settle(call, first + i, totals[i], moments[i]);
      a[i] = k.a;
      b[i] = k.b;
      c[i] = k.c;
    }
    if (call.wanted(0)) combine(g, x, mean, a, b, c, call.output<float>(0) + at, block, call.adds(0));
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
