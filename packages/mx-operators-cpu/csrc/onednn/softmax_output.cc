// SPDX-License-Identifier: Apache-2.0
//
// The gradient of SoftmaxOutput: the probabilities less the labels, scaled.
#include "kernels.h"

namespace mx::onednn {
namespace {

class SoftmaxOutputBackward final : public Plan {
 public:
  SoftmaxOutputBackward(const Signature& s, const SoftmaxOutputOptions& o)
      : Plan(s, {0, 3.0 * static_cast<double>(s.outputs[0].bytes())}), o_(o) {
    if (s.inputs[0].type != DataType::f32 || s.inputs[1].type != DataType::f32) throw Unsupported{};
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const float *label = call.input<float>(0), *output = call.input<float>(1);
    auto* grad = call.output<float>(0);
    if (o_.label_is_distribution) {
      const auto scale = static_cast<float>(o_.grad_scale);
      parallel_for(o_.rows, [&](int64_t begin, int64_t end) {
        const int64_t row = o_.classes * o_.inner;
        for (int64_t i = begin * row; i < end * row; ++i) store(grad + i, scale * (output[i] - label[i]), call.adds(0));
      });
      return;
    }
    const float scale = this->scale(label);
    parallel_for(o_.rows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t k = 0; k < o_.classes; ++k) {
          const int64_t at = (r * o_.classes + k) * o_.inner;
          for (int64_t i = 0; i < o_.inner; ++i) {
            const float value = difference(output[at + i], label[r * o_.inner + i], k);
            store(grad + at + i, scale * value, call.adds(0));
          }
        }
      }
    });
  }

  static void store(float* target, float value, bool add) { *target = add ? *target + value : value; }

  bool ignored(float label) const {
    return o_.use_ignore && static_cast<int64_t>(label) == static_cast<int64_t>(o_.ignore_label);
  }

  // Label smoothing (Szegedy et al., arXiv:1512.00567) spreads smooth_alpha over the other classes.
  float difference(float probability, float label, int64_t k) const {
    if (ignored(label)) return 0;
    const auto alpha = static_cast<float>(o_.smooth_alpha);
    if (static_cast<int64_t>(label) == k) return probability - 1 + alpha;
    return o_.classes > 1 ? probability - alpha / static_cast<float>(o_.classes - 1) : probability;
  }

  float scale(const float* label) const {
    double divisor = 1;
    if (o_.normalization == Normalization::batch) divisor = static_cast<double>(o_.batch);
    if (o_.normalization == Normalization::valid) {
      int64_t valid = 0;
      for (int64_t i = 0; i < o_.rows * o_.inner; ++i) valid += !ignored(label[i]);
      divisor = static_cast<double>(std::max<int64_t>(valid, 1));
    } else {
      divisor *= static_cast<double>(o_.inner);
    }
    return static_cast<float>(o_.grad_scale / divisor);
  }

  const SoftmaxOutputOptions o_;
};

}  // namespace

PlanPtr softmax_output_backward(const Signature& signature, const SoftmaxOutputOptions& options) {
  return std::make_unique<SoftmaxOutputBackward>(signature, options);
}

}  // namespace mx::onednn
