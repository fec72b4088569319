// SPDX-License-Identifier: Apache-2.0
//
// Convolution and transposed convolution, forward and backward: oneDNN primitives in the layouts
// they prefer, or Winograd's with channels last, between reorders from and to row-major memory.
#include <string_view>

#include "convolution/convolution_shape.hpp"
#include "convolution/convolution.hpp"
#include "convolution/double_convolution.hpp"
#include "convolution/filter_shares.hpp"
#include "convolution/pointwise.hpp"
#include "convolution/small_convolution.hpp"
#include "onednn/primitive_program.hpp"
#include "convolution/winograd_steps.hpp"

namespace mx::cpu {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

PlanPtr winograd_forward(const Signature& signature, const ConvolutionShape& shape, const WinogradProblem& problem) {
  ProgramBuilder builder(signature, shape.cost());
  const MemoryDesc last = channels_last_of(shape.out);
  const Slot dst = builder.output(0, shape.out);
  WinogradLayer layer;
  layer.data = builder.as(builder.input(0, shape.data), channels_last_of(shape.data), 1);
  layer.filters = builder.input(1, shape.weight);
  layer.out = builder.target(dst, last);
  if (signature.inputs.size() == 3) layer.bias = builder.input(2, plain(signature.inputs[2].shape, DataType::f32));
  add_convolution(builder, problem, filter_layout(shape.weight), layer, 1);
  builder.deliver(layer.out, dst, 1);
  return builder.build();
}

template <class Forward>
PlanPtr forward(const Signature& signature, const ConvolutionOptions& options, bool transposed) {
  const Spec &data = signature.inputs[0], &weight = signature.inputs[1], &out = signature.outputs[0];
  if (out.dtype == MX_FLOAT64) return double_convolution(signature, options, transposed);
  if (PlanPtr small = small_convolution(signature, options, transposed)) return small;
  const ConvolutionShape shape(options, transposed, data, weight, out);
  if (signature.inputs.size() == 3) require_size(signature.inputs[2], shape.filters());
  if (!transposed && is_pointwise(options, shape)) return pointwise_convolution(signature, shape);
  const auto problem = winograd_problem(options, shape);
  if (problem && pays(*problem, false)) return winograd_forward(signature, shape, *problem);
  ProgramBuilder builder(signature, shape.cost());
  const Slot src = builder.input(0, shape.data), weights = builder.input(1, shape.weight);
  const bool biased = signature.inputs.size() == 3;
  const MemoryDesc bias = biased ? shape.bias(signature.inputs[2]) : MemoryDesc();
  const auto desc = make_descriptor<Forward>(shape, bias);
  ProgramBuilder::Arguments arguments = {
      {DNNL_ARG_SRC, builder.as(src, desc.src_desc(), 1)},
      {DNNL_ARG_WEIGHTS, builder.as(weights, desc.weights_desc(), 1)}};
  if (biased) {
    const Slot given = builder.input(2, plain(signature.inputs[2].shape, data_type(signature.inputs[2])));
    arguments.emplace_back(DNNL_ARG_BIAS, builder.as(given, bias, 1));
  }
  const Slot dst = builder.output(0, shape.out), made = builder.target(dst, desc.dst_desc());
  arguments.emplace_back(DNNL_ARG_DST, made);
  builder.step(desc, std::move(arguments), 1);
  builder.deliver(made, dst, 1);
  return builder.build();
}

// Whether each group has one channel and one filter.
bool is_depthwise(const ConvolutionShape& shape) {
  const Dims weight = shape.weight.get_dims();
  return weight.size() == shape.data.get_dims().size() + 1 && weight[1] == 1 && weight[2] == 1;
}

// For steps of two or more oneDNN 3.2 offers kernels of dense groups first, which fill whole blocks of channels.
template <class Descriptor>
void pass_over_dense_kernels(Descriptor& desc) {
  const auto is_dense = [&] { return std::string_view(desc.impl_info_str()).substr(0, 7) == "brgconv"; };
  while (is_dense() && desc.next_impl()) {
  }
}

// The tensors of a backward pass.
struct Gradients {
  Slot out_grad, data, weight;                 // inputs
  Slot data_grad, weight_grad, bias_grad = -1;  // outputs
  MemoryDesc bias;                             // of the primitive; empty: no gradient of one

  OutputMask of_filters() const { return needed_by(1) | (bias_grad < 0 ? 0 : needed_by(2)); }
};

template <class Backward, class Hint>
void direct_data_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, const Hint& hint, const Gradients& g) {
  const OutputMask mask = needed_by(0);
  const Window& w = shape.window;
  typename Backward::primitive_desc desc(
      describing_engine(), shape.kind, shape.in_primitive(shape.data), shape.free(shape.weight),
      shape.in_primitive(shape.out), w.stride, w.dilate, w.pad, shape.pad_end, hint, ProgramBuilder::attributes());
  if (is_depthwise(shape)) pass_over_dense_kernels(desc);
  const Slot made = builder.target(g.data_grad, desc.diff_src_desc());
  builder.step(desc,
               {{DNNL_ARG_DIFF_DST, builder.as(g.out_grad, desc.diff_dst_desc(), mask)},
                {DNNL_ARG_WEIGHTS, builder.as(g.weight, desc.weights_desc(), mask)},
                {DNNL_ARG_DIFF_SRC, made}},
               mask);
  builder.deliver(made, g.data_grad, mask);
}

// Gradients of shares of the batch, side by side, then their sum in float32.  False where that is not worth it.
template <class Backward, class Hint>
bool shared_filter_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, const Hint& hint,
                            const Gradients& g) {
  const OutputMask mask = g.of_filters();
  const bool biased = g.bias_grad >= 0;
  const MemoryDesc bias = biased ? plain(g.bias.get_dims(), DataType::f32) : MemoryDesc();
  const auto shares = filter_shares<Backward>(shape, hint, bias);
  if (!shares) return false;
  const MemoryDesc data = shares->whole.src_desc(), made = shares->whole.diff_weights_desc();
  const MemoryDesc out = shares->whole.diff_dst_desc();
  const Slot all_data = builder.as(g.data, data, mask), all_out = builder.as(g.out_grad, out, mask);
  std::vector<ProgramBuilder::Member> members;
  std::vector<Slot> filters, biases;
  for (const auto& [first, desc] : shares->each) {
    const bool is_target = members.empty();
    filters.push_back(is_target ? builder.target(g.weight_grad, made) : builder.scratch(made));
    ProgramBuilder::Arguments arguments = {
        {DNNL_ARG_SRC, builder.part(all_data, desc.src_desc(), first * bytes_of_image(data))},
        {DNNL_ARG_DIFF_DST, builder.part(all_out, desc.diff_dst_desc(), first * bytes_of_image(out))},
        {DNNL_ARG_DIFF_WEIGHTS, filters.back()}};
    if (biased) {
      biases.push_back(is_target ? builder.target(g.bias_grad, bias) : builder.scratch(bias));
      arguments.emplace_back(DNNL_ARG_DIFF_BIAS, biases.back());
    }
    members.push_back(builder.member(desc, std::move(arguments)));
  }
  builder.side_by_side(std::move(members), mask);
  add_sum(builder, filters, made, needed_by(1));
  builder.deliver(filters[0], g.weight_grad, needed_by(1));
  if (!biased) return true;
  add_sum(builder, biases, bias, needed_by(2));
  builder.deliver(biases[0], g.bias_grad, needed_by(2));
  return true;
}

template <class Backward, class Hint>
void direct_filter_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, const Hint& hint,
                            const Gradients& g) {
  if (!shape.filter_gradients_suit) throw Unsupported{};
  if (shared_filter_gradient<Backward>(builder, shape, hint, g)) return;
  const auto desc = [&] {
    const TeamScope threads(shape.cost().microseconds() < kTimeSlice ? 1 : team_size());
    return filter_descriptor<Backward>(shape, hint, shape.in_weight_gradient(shape.data), shape.free(shape.weight),
                                       g.bias, shape.in_weight_gradient(shape.out));
  }();
  const Slot made = builder.target(g.weight_grad, desc.diff_weights_desc());
  ProgramBuilder::Arguments arguments = {
      {DNNL_ARG_SRC, builder.as(g.data, desc.src_desc(), g.of_filters())},
      {DNNL_ARG_DIFF_DST, builder.as(g.out_grad, desc.diff_dst_desc(), g.of_filters())},
      {DNNL_ARG_DIFF_WEIGHTS, made}};
  const Slot summed = g.bias_grad < 0 ? -1 : builder.target(g.bias_grad, g.bias);
  if (summed >= 0) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, summed);
  builder.step(desc, std::move(arguments), g.of_filters());
  builder.deliver(made, g.weight_grad, needed_by(1));
  if (summed >= 0) builder.deliver(summed, g.bias_grad, needed_by(2));
}

void winograd_data_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, const WinogradProblem& problem,
                           const Gradients& g) {
  const OutputMask mask = needed_by(0);
  FilterLayout layout = filter_layout(shape.weight);
  std::swap(layout.input, layout.output);
  layout.flipped = true;
  WinogradLayer layer;
  layer.data = builder.as(g.out_grad, channels_last_of(shape.out), mask);
  layer.filters = g.weight;
  layer.out = builder.target(g.data_grad, channels_last_of(shape.data));
  add_convolution(builder, problem, layout, layer, mask);
  builder.deliver(layer.out, g.data_grad, mask);
}

// `Gradient` as add_filter_gradient has it.
template <class Gradient, class WinogradProblem>
void own_filter_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, const WinogradProblem& problem,
                         const Gradients& g) {
  const Slot data = builder.as(g.data, channels_last_of(shape.data), needed_by(1));
  const Slot out_grad = builder.as(g.out_grad, channels_last_of(shape.out), g.of_filters());
  add_filter_gradient<Gradient>(builder, problem, filter_layout(shape.weight), data, out_grad, g.weight_grad,
                                needed_by(1));
  if (g.bias_grad >= 0) add_bias_gradient(builder, shape, out_grad, g.bias_grad, needed_by(2));
}

template <class Forward, class BackwardData, class BackwardWeights>
PlanPtr backward(const Signature& signature, const ConvolutionOptions& options, bool transposed) {
  const Spec &out_grad = signature.inputs[0], &data = signature.inputs[1], &weight = signature.inputs[2];
  if (out_grad.dtype == MX_FLOAT64) return double_convolution_backward(signature, options, transposed);
  const ConvolutionShape shape(options, transposed, data, weight, out_grad);
  if (signature.outputs.size() == 3) require_size(signature.outputs[2], shape.filters());
  if (!transposed && is_pointwise(options, shape) && suits_pointwise_backward(shape)) {
    return pointwise_backward(signature, shape);
  }
  Cost cost = shape.cost();
  cost.flops *= 2;
  ProgramBuilder builder(signature, cost);
  Gradients g;
  g.out_grad = builder.input(0, shape.out), g.data = builder.input(1, shape.data);
  g.weight = builder.input(2, shape.weight);
  g.data_grad = builder.output(0, shape.data), g.weight_grad = builder.output(1, shape.weight);
  if (signature.outputs.size() == 3) {
    g.bias = shape.bias(signature.outputs[2]);
    g.bias_grad = builder.output(2, plain(signature.outputs[2].shape, data_type(signature.outputs[2])));
  }
  const auto hint = make_descriptor<Forward>(shape, g.bias);
  const auto problem = winograd_problem(options, shape);
  if (problem && pays(problem->of_data_gradient(), false)) {
    winograd_data_gradient(builder, shape, problem->of_data_gradient(), g);
  } else {
    direct_data_gradient<BackwardData>(builder, shape, hint, g);
  }
  if (problem && gradient_pays(*problem)) {
    own_filter_gradient<WinogradGradient<float>>(builder, shape, *problem, g);
  } else if (const auto image = first_layer_problem(options, shape)) {
    own_filter_gradient<ImageGradient>(builder, shape, *image, g);
  } else {
    direct_filter_gradient<BackwardWeights>(builder, shape, hint, g);
  }
  return builder.build();
}

}  // namespace

PlanPtr convolution(const Signature& signature, const ConvolutionOptions& options) {
  require_counts(signature, 2, 3, 1, 1);
  return forward<dnnl::convolution_forward>(signature, options, false);
}

PlanPtr deconvolution(const Signature& signature, const ConvolutionOptions& options) {
  require_counts(signature, 2, 3, 1, 1);
  return forward<dnnl::deconvolution_forward>(signature, options, true);
}

PlanPtr convolution_backward(const Signature& signature, const ConvolutionOptions& options) {
  require_counts(signature, 3, 3, 2, 3);
  return backward<dnnl::convolution_forward, dnnl::convolution_backward_data,
                  dnnl::convolution_backward_weights>(signature, options, false);
}

PlanPtr deconvolution_backward(const Signature& signature, const ConvolutionOptions& options) {
  require_counts(signature, 3, 3, 2, 3);
  return backward<dnnl::deconvolution_forward, dnnl::deconvolution_backward_data,
                  dnnl::deconvolution_backward_weights>(signature, options, true);
}

}  // namespace mx::cpu
