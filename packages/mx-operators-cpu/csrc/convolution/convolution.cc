// SPDX-License-Identifier: Apache-2.0
//
// Convolution and transposed convolution, forward and backward: oneDNN primitives in the layouts
// they prefer, or Winograd's with channels last, between reorders from and to row-major memory.
#include "convolution/convolution_shape.hpp"
#include "convolution/convolution.hpp"
#include "convolution/double_convolution.hpp"
#include "convolution/pointwise.hpp"
#include "onednn/primitive_program.hpp"
#include "simd/loops.hpp"
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
  const typename Backward::primitive_desc desc(
      cpu_engine(), shape.kind, shape.in_primitive(shape.data), shape.free(shape.weight), shape.in_primitive(shape.out),
      w.stride, w.dilate, w.pad, shape.pad_end, hint, ProgramBuilder::attributes());
  const Slot made = builder.target(g.data_grad, desc.diff_src_desc());
  builder.step(desc,
               {{DNNL_ARG_DIFF_DST, builder.as(g.out_grad, desc.diff_dst_desc(), mask)},
                {DNNL_ARG_WEIGHTS, builder.as(g.weight, desc.weights_desc(), mask)},
                {DNNL_ARG_DIFF_SRC, made}},
               mask);
  builder.deliver(made, g.data_grad, mask);
}

// `data` and `out`: as they are, or a share of them.
template <class Backward, class Hint>
typename Backward::primitive_desc filter_descriptor(const ConvolutionShape& shape, const Hint& hint,
                                                    const MemoryDesc& data, const MemoryDesc& weight,
                                                    const MemoryDesc& bias, const MemoryDesc& out) {
  const Window& w = shape.window;
  return {cpu_engine(), shape.kind, data, weight, bias, out, w.stride, w.dilate, w.pad, shape.pad_end, hint,
          ProgramBuilder::attributes()};
}

// The threads of oneDNN's gradients of filters wait for each other without letting go of the processor: where somebody
// else wants it, too, a wait takes a time slice, some milliseconds.  So they get one thread where a share of the batch
// for each thread is possible, or where they take less than that.
constexpr double kTimeSlice = 1000;  // estimated microseconds

// The first of some images of a layout.
MemoryDesc images_of(const MemoryDesc& desc, int64_t images) {
  Dims dims = desc.get_dims();
  dims[0] = images;
  return desc.submemory_desc(dims, Dims(dims.size(), 0));
}

size_t bytes_of_image(const MemoryDesc& desc) {
  return static_cast<size_t>(desc.get_strides()[0]) * dnnl::memory::data_type_size(desc.get_data_type());
}

// Adds floats of the other slots to those of the first.
void add_sum(ProgramBuilder& builder, const std::vector<Slot>& parts, const MemoryDesc& desc, OutputMask mask) {
  constexpr int64_t kGrain = 8192;
  builder.host(
      [=, n = static_cast<int64_t>(desc.get_size() / sizeof(float))](void* const* slots, const Call&) {
        parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
          for (size_t k = 1; k < parts.size(); ++k)
            loops().add_scaled[0](static_cast<float*>(slots[parts[0]]) + begin,
                                  static_cast<const float*>(slots[parts[k]]) + begin, 1,
                                  static_cast<size_t>(end - begin));
        });
      },
      parts, mask);
}

// Gradients of shares of the batch, side by side, then their sum in float32.  False where that is not worth it.
template <class Backward, class Hint>
bool shared_filter_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, const Hint& hint,
                            const Gradients& g) {
  const Dims x = shape.data.get_dims(), w = shape.weight.get_dims(), y = shape.out.get_dims();
  const int64_t images = x[0], shares = std::min<int64_t>(team_size(), images);
  if (shares < 2 || 2 * shares * product(w) > product(x) + product(y)) return false;
  const OutputMask mask = g.of_filters();
  const bool biased = g.bias_grad >= 0;
  const MemoryDesc bias = biased ? plain(g.bias.get_dims(), DataType::f32) : MemoryDesc();
  const auto begin = [&](int64_t share) { return images * share / shares; };
  const auto describe = [&](const MemoryDesc& data, const MemoryDesc& weight, const MemoryDesc& out) {
    const TeamScope alone(1);
    return filter_descriptor<Backward>(shape, hint, data, weight, bias, out);
  };
  const auto whole = describe(shape.in_weight_gradient(shape.data), {w, DataType::f32, dnnl::memory::format_tag::any},
                              shape.in_weight_gradient(shape.out));
  const MemoryDesc data = whole.src_desc(), made = whole.diff_weights_desc(), out = whole.diff_dst_desc();
  for (const MemoryDesc& tensor : {data, out})
    if (tensor.get_size() != bytes_of_image(tensor) * static_cast<size_t>(images)) return false;
  const Slot all_data = builder.as(g.data, data, mask), all_out = builder.as(g.out_grad, out, mask);
  std::vector<ProgramBuilder::Member> members;
  std::vector<Slot> filters, biases;
  for (int64_t share = 0; share < shares; ++share) {
    const int64_t n = begin(share + 1) - begin(share);
    const auto first = static_cast<size_t>(begin(share));
    const auto desc = describe(images_of(data, n), made, images_of(out, n));
    filters.push_back(share == 0 ? builder.target(g.weight_grad, made) : builder.scratch(made));
    ProgramBuilder::Arguments arguments = {
        {DNNL_ARG_SRC, builder.part(all_data, desc.src_desc(), first * bytes_of_image(data))},
        {DNNL_ARG_DIFF_DST, builder.part(all_out, desc.diff_dst_desc(), first * bytes_of_image(out))},
        {DNNL_ARG_DIFF_WEIGHTS, filters.back()}};
    if (biased) {
      biases.push_back(share == 0 ? builder.target(g.bias_grad, bias) : builder.scratch(bias));
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
    own_filter_gradient<WinogradGradient>(builder, shape, *problem, g);
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
