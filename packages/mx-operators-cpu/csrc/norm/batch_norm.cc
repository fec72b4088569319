// SPDX-License-Identifier: Apache-2.0
//
// BatchNorm on row-major memory whose channels are not last. The operator is bound by memory: a block of channels
// is taken through all its passes by one thread while it is in cache.
#include "norm/batch_norm.hpp"

#include "norm/channel_loops.hpp"

namespace mx::cpu {
namespace {

// Calls body(first channel, block) over the team's shares of the channels.
template <class Body>
void for_channel_blocks(const AxisView& v, const Body& body) {
  const int64_t width = block_channels(v.inner), step = v.length * v.inner;
  parallel_shares((v.length + width - 1) / width, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * width;
      body(first, Block{v.outer, step, std::min(width, v.length - first), v.inner});
    }
  });
}

template <class T>
class BatchNorm final : public Plan {
  using S = Statistic<T>;

 public:
  BatchNorm(const Signature& s, const BatchNormOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o), v_(s.inputs[0].shape, o.axis),
        count_(static_cast<double>(v_.outer * v_.inner)) {
    require_forward<T>(s, v_.length);
    if (!o.use_batch_stats) add_scratch(static_cast<size_t>(v_.length) * sizeof(S));
  }

 private:
  void execute(const Call& call) const override {
    set_step(call, signature_, 0);
    if (!o_.use_batch_stats) return normalize_by_moving(call);
    for_channel_blocks(v_, [&](int64_t first, const Block& block) { normalize_block(call, first, block); });
  }

  // What is known before is applied in the order of memory.
  void normalize_by_moving(const Call& call) const {
    const S *mean = call.input<S>(3), *variance = call.input<S>(4);
    auto* scale = static_cast<S*>(call.context.scratch[0]);
    for (int64_t c = 0; c < v_.length; ++c) scale[c] = finish_channel<S>(o_, call, c, mean[c], variance[c]);
    if (!call.wanted(0)) return;
    const bool streams = !call.adds(0) && 2 * signature_.outputs[0].bytes() > kCacheBytes;
    const int64_t step = v_.length * v_.inner;
    parallel_shares(v_.outer * v_.length, [&](int64_t begin, int64_t end) {
      for (int64_t next = begin; begin < end; begin = next) {
        const int64_t row = begin / v_.length, first = begin - row * v_.length;
        next = std::min(end, (row + 1) * v_.length);
        const Block block{1, step, next - begin, v_.inner};
        const T* x = call.input<T>(0) + begin * v_.inner;
        const S* shift = call.input<S>(2) + first;
        T* y = call.output<T>(0) + begin * v_.inner;
        if constexpr (std::is_same_v<T, float>) {
          if (streams) {
            normalize_past_caches(x, mean + first, scale + first, shift, y, block);
            continue;
          }
        }
        normalize(x, mean + first, scale + first, shift, y, block, call.adds(0));
      }
    });
  }

  void normalize_block(const Call& call, int64_t first, const Block& block) const {
    const T* x = call.input<T>(0) + first * v_.inner;
    S mean[kBlockChannels], scale[kBlockChannels];
    double result[kBlockChannels];
    sums(x, block, result);
    for (int64_t c = 0; c < block.channels; ++c) mean[c] = static_cast<S>(result[c] / count_);
    squared_deviations(x, mean, block, result);
    for (int64_t c = 0; c < block.channels; ++c)
      scale[c] = finish_channel<S>(o_, call, first + c, mean[c], static_cast<S>(result[c] / count_));
    if (!call.wanted(0)) return;
    normalize(x, mean, scale, call.input<S>(2) + first, call.output<T>(0) + first * v_.inner, block,
              call.adds(0));
  }

  const BatchNormOptions o_;
  const AxisView v_;
  const double count_;  // elements per channel
};

template <class T>
class BatchNormBackward final : public Plan {
  using S = Statistic<T>;

 public:
  BatchNormBackward(const Signature& s, const BatchNormOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o), v_(s.inputs[1].shape, o.axis),
        count_(static_cast<double>(v_.outer * v_.inner)) {
    require_backward<T>(s, v_.length);
  }

 private:
  void execute(const Call& call) const override {
    for_channel_blocks(v_, [&](int64_t first, const Block& block) { differentiate_block(call, first, block); });
  }

  void differentiate_block(const Call& call, int64_t first, const Block& block) const {
    const int64_t at = first * v_.inner;
    const T *g = call.input<T>(0) + at, *x = call.input<T>(1) + at;
    const S* mean = call.input<S>(3) + first;
    double totals[kBlockChannels], moments[kBlockChannels];
    gradient_sums(g, x, mean, block, totals, moments);
    S a[kBlockChannels], b[kBlockChannels], c[kBlockChannels];
    for (int64_t i = 0; i < block.channels; ++i) {
      const Coefficients<S> k = finish_channel_gradient<S>(o_, call, first + i, count_, totals[i], moments[i]);
      a[i] = k.a;
      b[i] = k.b;
      c[i] = k.c;
    }
    if (call.wanted(0)) combine(g, x, mean, a, b, c, call.output<T>(0) + at, block, call.adds(0));
  }

  const BatchNormOptions o_;
  const AxisView v_;
  const double count_;
};

// Whole rows of channels have loops of their own but for float64.
bool by_rows(const Spec& data, const BatchNormOptions& o) {
  return AxisView(data.shape, o.axis).inner == 1 && data.dtype != MX_FLOAT64;
}

}  // namespace

PlanPtr batch_norm(const Signature& s, const BatchNormOptions& o) {
  if (by_rows(forward_counted(s).inputs[0], o)) return batch_norm_rows(s, o);
  if (s.inputs[0].dtype == MX_FLOAT64) return std::make_unique<BatchNorm<double>>(s, o);
  return made_for<BatchNorm>(s.inputs[0].dtype, s, o);
}

PlanPtr batch_norm_backward(const Signature& s, const BatchNormOptions& o) {
  if (by_rows(backward_counted(s).inputs[1], o)) return batch_norm_rows_backward(s, o);
  if (s.inputs[1].dtype == MX_FLOAT64) return std::make_unique<BatchNormBackward<double>>(s, o);
  return made_for<BatchNormBackward>(s.inputs[1].dtype, s, o);
}

}  // namespace mx::cpu
