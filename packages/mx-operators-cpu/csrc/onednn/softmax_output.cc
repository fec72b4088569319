// SPDX-License-Identifier: Apache-2.0
//
// The gradient of SoftmaxOutput: the probabilities less the labels, scaled.
#include <cmath>

#include "kernels.h"

namespace mx::onednn {
namespace {

class SoftmaxOutputBackward final : public Plan {
 public:
  SoftmaxOutputBackward(const Signature& s, const SoftmaxOutputOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o) {
    require_float(s);
    const int64_t size = o.rows * o.classes * o.inner;
    require_sizes(s.inputs, {o.label_is_distribution ? size : o.rows * o.inner, size});
    require_sizes(s.outputs, {size});
  }

 private:
  void execute(const Call& call) const override {
    if (call.context.n_scalars != 2) {
      throw Error(MX_ERROR_VALUE, "[SoftmaxOutput] expected the run-time scalars grad_scale and ignore_label");
    }
    if (!call.wanted(0)) return;
    const double grad_scale = call.context.scalars[0];
    const auto ignore_label = static_cast<float>(call.context.scalars[1]);
    const float *label = call.input<float>(0), *output = call.input<float>(1);
    auto* grad = call.output<float>(0);
    const float scale = static_cast<float>(grad_scale / divisor(label, ignore_label));
    parallel_for(o_.rows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t k = 0; k < o_.classes; ++k) {
          const int64_t at = (r * o_.classes + k) * o_.inner;
          for (int64_t i = 0; i < o_.inner; ++i) {
            const float value =
                o_.label_is_distribution ? output[at + i] - label[at + i]
                                         : difference(output[at + i], label[r * o_.inner + i], k, ignore_label);
            grad[at + i] = call.adds(0) ? grad[at + i] + scale * value : scale * value;
          }
        }
      }
    });
  }

  bool ignored(float label, float ignore_label) const { return o_.use_ignore && label == ignore_label; }

  // Label smoothing (Szegedy et al., arXiv:1512.00567) spreads smooth_alpha over the other classes.
  float difference(float probability, float label, int64_t k, float ignore_label) const {
    if (ignored(label, ignore_label)) return 0;
    const auto alpha = static_cast<float>(o_.smooth_alpha);
    if (std::trunc(label) == static_cast<float>(k)) return probability - 1 + alpha;
    return probability - alpha / static_cast<float>(std::max<int64_t>(o_.classes - 1, 1));
  }

  double divisor(const float* label, float ignore_label) const {
    if (o_.label_is_distribution) return 1;
    if (o_.normalization == Normalization::valid) {
      int64_t valid = 0;
      for (int64_t i = 0; i < o_.rows * o_.inner; ++i) valid += !ignored(label[i], ignore_label);
      return static_cast<double>(std::max<int64_t>(valid, 1));
    }
    return static_cast<double>(o_.normalization == Normalization::batch ? o_.rows * o_.inner : o_.inner);
  }

  const SoftmaxOutputOptions o_;
};

}  // namespace

PlanPtr softmax_output_backward(const Signature& signature, const SoftmaxOutputOptions& options) {
  return std::make_unique<SoftmaxOutputBackward>(signature, options);
}

}  // namespace mx::onednn
