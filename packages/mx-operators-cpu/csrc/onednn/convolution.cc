// SPDX-License-Identifier: Apache-2.0
//
// Convolution and transposed convolution, forward and backward: oneDNN primitives in the layouts
// they prefer, between reorders from and to row-major memory.
#include "convolution_shape.h"
#include "kernels.h"
#include "pointwise.h"
#include "program.h"

namespace mx::onednn {
namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

template <class Forward>
PlanPtr forward(const Signature& signature, const ConvolutionOptions& options, bool transposed) {
  const Spec &data = signature.inputs[0], &weight = signature.inputs[1], &out = signature.outputs[0];
  const ConvolutionShape shape(options, transposed, data, weight, out);
  if (!transposed && is_pointwise(options, shape)) return pointwise_convolution(signature, shape);
  ProgramBuilder builder(signature, shape.cost());
  const Slot src = builder.input(0, shape.data), weights = builder.input(1, shape.weight);
  const bool biased = signature.inputs.size() == 3;
  const MemoryDesc bias = biased ? plain(signature.inputs[2].shape, signature.inputs[2].type) : MemoryDesc();
  const auto desc = make_descriptor<Forward>(shape, bias);
  ProgramBuilder::Arguments arguments = {
      {DNNL_ARG_SRC, builder.as(src, desc.src_desc(), 1)},
      {DNNL_ARG_WEIGHTS, builder.as(weights, desc.weights_desc(), 1)}};
  if (biased) arguments.emplace_back(DNNL_ARG_BIAS, builder.input(2, bias));
  const Slot dst = builder.output(0, shape.out), made = builder.target(dst, desc.dst_desc());
  arguments.emplace_back(DNNL_ARG_DST, made);
  builder.step(desc, std::move(arguments), 1);
  builder.deliver(made, dst, 1);
  return builder.build();
}

template <class Forward, class BackwardData, class BackwardWeights>
PlanPtr backward(const Signature& signature, const ConvolutionOptions& options, bool transposed) {
  const Spec &out_grad = signature.inputs[0], &data = signature.inputs[1], &weight = signature.inputs[2];
  const ConvolutionShape shape(options, transposed, data, weight, out_grad);
  if (!transposed && is_pointwise(options, shape) && suits_pointwise_backward(shape)) {
    return pointwise_backward(signature, shape);
  }
  const bool biased = signature.outputs.size() == 3;
  const MemoryDesc bias = biased ? plain(signature.outputs[2].shape, signature.outputs[2].type) : MemoryDesc();
  Cost cost = shape.cost();
  cost.flops *= 2;
  ProgramBuilder builder(signature, cost);
  const Slot diff_dst = builder.input(0, shape.out), src = builder.input(1, shape.data);
  const Slot diff_weights = builder.output(1, shape.weight);
  const auto hint = make_descriptor<Forward>(shape, bias);
  const Window& w = shape.window;

  const OutputMask for_data = needed_by(0), for_weights = needed_by(1) | (biased ? needed_by(2) : 0);
  const typename BackwardData::primitive_desc by_data(
      cpu_engine(), shape.kind, shape.in_primitive(shape.data), any_layout(shape.weight),
      shape.in_primitive(shape.out), w.stride, w.dilate, w.pad, shape.pad_end, hint, ProgramBuilder::attributes());
  const Slot weights = builder.input(2, shape.weight), diff_src = builder.output(0, shape.data);
  const Slot data_made = builder.target(diff_src, by_data.diff_src_desc());
  builder.step(by_data,
               {{DNNL_ARG_DIFF_DST, builder.as(diff_dst, by_data.diff_dst_desc(), for_data)},
                {DNNL_ARG_WEIGHTS, builder.as(weights, by_data.weights_desc(), for_data)},
                {DNNL_ARG_DIFF_SRC, data_made}},
               for_data);
  builder.deliver(data_made, diff_src, for_data);
  const typename BackwardWeights::primitive_desc by_weights(
      cpu_engine(), shape.kind, shape.in_weight_gradient(shape.data), any_layout(shape.weight), bias,
      shape.in_weight_gradient(shape.out), w.stride, w.dilate, w.pad, shape.pad_end, hint, ProgramBuilder::attributes());
  const Slot made = builder.target(diff_weights, by_weights.diff_weights_desc());
  ProgramBuilder::Arguments arguments = {
      {DNNL_ARG_SRC, builder.as(src, by_weights.src_desc(), for_weights)},
      {DNNL_ARG_DIFF_DST, builder.as(diff_dst, by_weights.diff_dst_desc(), for_weights)},
      {DNNL_ARG_DIFF_WEIGHTS, made}};
  if (biased) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, builder.output(2, bias));
  builder.step(by_weights, std::move(arguments), for_weights);
  builder.deliver(made, diff_weights, needed_by(1));
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

}  // namespace mx::onednn
