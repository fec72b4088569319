// SPDX-License-Identifier: Apache-2.0
#include "convolution/double_convolution.hpp"

#include <algorithm>

#include "common/float_types.hpp"
#include "convolution/window_products.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

Cost cost_of(const Signature& s, const ConvolutionGeometry& g, double products) {
  Cost cost = bandwidth_cost(s);
  cost.flops = 4 * products * g.macs();
  return cost;
}

class DoubleConvolution final : public Plan {
 public:
  DoubleConvolution(const Signature& s, const ConvolutionGeometry& g, bool transposed)
      : Plan(s, cost_of(s, g, 1)), product_(g, transposed, threads()),
        panels_(add_thread_scratch(product_.scratch_bytes())), shared_(add_scratch(product_.shared_bytes())) {}

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const double* bias = inputs_.size() == 3 ? call.input<double>(2) : nullptr;
    product_.run(call, call.input<double>(0), call.input<double>(1), {call.output<double>(0), call.adds(0), bias}, panels_,
                 call.scratch<double>(shared_));
  }

  const WindowProduct product_;
  const PerThread panels_;
  const Section shared_;
};

class DoubleConvolutionBackward final : public Plan {
 public:
  DoubleConvolutionBackward(const Signature& s, const ConvolutionGeometry& g, bool transposed)
      : Plan(s, cost_of(s, g, 2)), transposed_(transposed),
        heads_(transposed ? g.large() : g.small()),
        channels_(g.groups * (transposed ? g.channels : g.filters)),
        area_(transposed ? g.large_area() : g.small_area()), batch_(g.batch),
        data_(g, !transposed, threads()), filters_(g, threads()),
        panels_(add_thread_scratch(std::max(data_.scratch_bytes(), filters_.scratch_bytes()))),
        shared_(add_scratch(std::max(data_.shared_bytes(), filters_.shared_bytes()))) {}

 private:
  void execute(const Call& call) const override {
    const double *out_grad = call.input<double>(0), *data = call.input<double>(1);
    const double *large = transposed_ ? out_grad : data, *small = transposed_ ? data : out_grad;
    if (call.wanted(0))
      data_.run(call, out_grad, call.input<double>(2), {call.output<double>(0), call.adds(0), nullptr}, panels_,
                call.scratch<double>(shared_));
    if (call.wanted(1))
      filters_.run(call, large, small, call.output<double>(1), call.adds(1), panels_, call.scratch<double>(shared_));
    if (outputs_.size() == 3 && call.wanted(2)) add_heads(call, out_grad);
  }

  // The gradient of the bias: the heads of a channel, summed.
  void add_heads(const Call& call, const double* heads) const {
    const bool last = heads_.position == channels_;
    const auto& fold = last ? loops().fold_columns : loops().fold_row;
    parallel_for(channels_, 16, [&](int64_t begin, int64_t end) {
      double* to = call.output<double>(2);
      if (!call.adds(2)) std::fill(to + begin, to + end, 0.0);
      if (last) {
        for (int64_t row = 0; row < batch_ * area_; ++row)
          fold[F64][kSum](to + begin, heads + row * heads_.position + begin, static_cast<size_t>(end - begin));
        return;
      }
      for (int64_t image = 0; image < batch_; ++image)
        for (int64_t c = begin; c < end; ++c)
          fold[F64][kSum](to + c, heads + image * heads_.image + c * heads_.channel, static_cast<size_t>(area_));
    });
  }

  const bool transposed_;
  const ImageSteps heads_;
  const int64_t channels_, area_, batch_;
  const WindowProduct data_;
  const FilterGradient filters_;
  const PerThread panels_;
  const Section shared_;
};

}  // namespace

PlanPtr double_convolution(const Signature& s, const ConvolutionOptions& options, bool transposed) {
  require_double(s);
  const Spec &data = s.inputs[0], &out = s.outputs[0];
  const ConvolutionGeometry g(options, transposed ? out : data, s.inputs[1], transposed ? data : out);
  if (s.inputs.size() == 3) require_size(s.inputs[2], g.groups * (transposed ? g.channels : g.filters));
  return std::make_unique<DoubleConvolution>(s, g, transposed);
}

PlanPtr double_convolution_backward(const Signature& s, const ConvolutionOptions& options, bool transposed) {
  require_double(s);
  const Spec &out_grad = s.inputs[0], &data = s.inputs[1];
  const ConvolutionGeometry g(options, transposed ? out_grad : data, s.inputs[2], transposed ? data : out_grad);
  require_size(s.outputs[0], data.size());
  require_size(s.outputs[1], s.inputs[2].size());
  if (s.outputs.size() == 3) require_size(s.outputs[2], g.groups * (transposed ? g.channels : g.filters));
  return std::make_unique<DoubleConvolutionBackward>(s, g, transposed);
}

}  // namespace mx::cpu
