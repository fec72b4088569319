// SPDX-License-Identifier: Apache-2.0
//
// Pooling whose only window is the whole image: the mean of each, and its share for every element.
#include "norm/channel_loops.hpp"
#include "pooling/pooling_loops.hpp"

namespace mx::cpu {
namespace {

class GlobalMean final : public Plan {
 public:
  GlobalMean(const Signature& s, const Cost& cost)
      : Plan(counted(s, 1, 1), cost), area_(s.inputs[0].size() / s.outputs[0].size()) {}

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    parallel_shares(signature_.outputs[0].size(), [&](int64_t begin, int64_t end) {
      double total[kBlockChannels];
      for (; begin < end; begin += kBlockChannels) {
        const Block images{1, 0, std::min(kBlockChannels, end - begin), area_};
        sums(call.input<float>(0) + begin * area_, images, total);
        float* y = call.output<float>(0) + begin;
        for (int64_t i = 0; i < images.channels; ++i) {
          const auto mean = static_cast<float>(total[i] / static_cast<double>(area_));
          y[i] = call.adds(0) ? y[i] + mean : mean;
        }
      }
    });
  }

  const int64_t area_;
};

class GlobalMeanBackward final : public Plan {
 public:
  GlobalMeanBackward(const Signature& s, const Cost& cost)
      : Plan(counted(s, 3, 1), cost), area_(s.inputs[1].size() / s.inputs[0].size()) {
    require_sizes(s.outputs, {s.inputs[1].size()});
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const bool streams = signature_.outputs[0].bytes() > kCacheBytes;
    parallel_shares(signature_.inputs[0].size(), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const float share = call.input<float>(0)[p] / static_cast<float>(area_);
        float* grad = call.output<float>(0) + p * area_;
        if (call.adds(0)) {
          for (int64_t i = 0; i < area_; ++i) grad[i] += share;
        } else if (streams) {
          fill_past_caches(grad, share, area_);
        } else {
          std::fill_n(grad, area_, share);
        }
      }
    });
  }

  const int64_t area_;
};

}  // namespace

bool is_global_mean(const Spec& data, const Spec& out, const PoolOptions& o) {
  const size_t rank = o.window.kernel.size();
  if (o.type != PoolType::avg || o.channels_last || data.dtype != MX_FLOAT32 || out.dtype != MX_FLOAT32 ||
      data.shape.size() != rank + 2 || out.shape.size() != rank + 2 || out.size() == 0)
    return false;
  for (size_t i = 0; i < rank; ++i)
    if (out.shape[i + 2] != 1 || o.window.kernel[i] != data.shape[i + 2] || o.window.pad[i] != 0) return false;
  return data.shape[0] == out.shape[0] && data.shape[1] == out.shape[1];
}

PlanPtr global_mean(const Signature& signature, const Cost& cost) {
  return std::make_unique<GlobalMean>(signature, cost);
}

PlanPtr global_mean_backward(const Signature& signature, const Cost& cost) {
  return std::make_unique<GlobalMeanBackward>(signature, cost);
}

}  // namespace mx::cpu
