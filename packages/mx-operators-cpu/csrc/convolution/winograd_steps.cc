// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd_steps.hpp"

#include <cstdlib>
#include <string>

#include "convolution/pointwise.hpp"

namespace mx::cpu {
namespace {

const float* floats(void* const* slots, Slot slot) {
  return slot < 0 ? nullptr : static_cast<const float*>(slots[slot]);
}

float* writable(void* const* slots, Slot slot) { return static_cast<float*>(slots[slot]); }

MemoryDesc vector_of(int64_t size) { return plain({size}, DataType::f32); }

std::vector<Slot> present(std::initializer_list<Slot> slots) {
  std::vector<Slot> found;
  std::copy_if(slots.begin(), slots.end(), std::back_inserter(found), [](Slot slot) { return slot >= 0; });
  return found;
}

// Float32 images in one group, their windows without gaps.
bool plain_images(const ConvolutionOptions& options, const ConvolutionShape& shape) {
  for (const MemoryDesc& tensor : {shape.data, shape.weight, shape.out})
    if (tensor.get_data_type() != DataType::f32) return false;
  return shape.kind == dnnl::algorithm::convolution_direct && options.groups == 1 && shape.window.dilate == Dims{0, 0};
}

}  // namespace

bool winograd_allowed() {
  const char* given = std::getenv("MX_WINOGRAD");
  std::string value = given == nullptr ? "" : given;
  value.erase(0, value.find_first_not_of(" \t\n\r"));
  value.erase(value.find_last_not_of(" \t\n\r") + 1);
  if (!value.empty() && value != "0" && value != "1")
    throw Error(MX_ERROR_VALUE, "[MX_WINOGRAD]: expected 0 or 1, got '" + value + "'");
  return value != "0";
}

std::optional<WinogradProblem> winograd_problem(const ConvolutionOptions& options, const ConvolutionShape& shape) {
  const Window& w = shape.window;
  if (!options.winograd || !plain_images(options, shape) || w.kernel != Dims{3, 3} || w.stride != Dims{1, 1})
    return std::nullopt;
  const Dims x = shape.data.get_dims(), y = shape.out.get_dims();
  const WinogradProblem problem{x[0], x[2], x[3], x[1], y[2], y[3], y[1], w.pad[0], w.pad[1]};
  if (!possible<float>(problem)) return std::nullopt;
  return problem;
}

std::optional<ImageProblem> first_layer_problem(const ConvolutionOptions& options,
                                                       const ConvolutionShape& shape) {
  if (!plain_images(options, shape)) return std::nullopt;
  const Window& w = shape.window;
  const Dims x = shape.data.get_dims(), y = shape.out.get_dims();
  const ImageProblem problem{x[0],        x[2],        x[3],        x[1],        y[2],     y[3],    y[1],
                                        w.kernel[0], w.kernel[1], w.stride[0], w.stride[1], w.pad[0], w.pad[1]};
  if (!suits(problem)) return std::nullopt;
  return problem;
}

FilterLayout filter_layout(const MemoryDesc& weight) {
  const Dims strides = weight.get_strides();
  return {strides[1], strides[0], strides[2], strides[3]};
}

MemoryDesc channels_last_of(const MemoryDesc& tensor) {
  return {tensor.get_dims(), tensor.get_data_type(), dnnl::memory::format_tag::nhwc};
}

MemoryDesc filter_points_of(const WinogradProblem& problem) {
  return vector_of(filter_points_size<float>(problem));
}

void add_filter_points(ProgramBuilder& builder, const WinogradProblem& problem, const FilterLayout& layout,
                       Slot filters, Slot points, OutputMask mask) {
  builder.host(
      [=](void* const* slots, const Call&) {
        make_filter_points(problem, floats(slots, filters), layout, writable(slots, points));
      },
      {filters, points}, mask);
}

void add_convolution(ProgramBuilder& builder, const WinogradProblem& problem, const FilterLayout& layout,
                     const WinogradLayer& layer, OutputMask mask) {
  const MinimalConvolution<float> convolution(problem, layout, layer.ready, team_size());
  const Slot space = builder.scratch(vector_of(convolution.workspace_size()));
  builder.host(
      [=](void* const* slots, const Call&) {
        Epilogue<float> epilogue = layer.epilogue;
        epilogue.bias = floats(slots, layer.bias);
        epilogue.residual = floats(slots, layer.residual);
        convolution.run(floats(slots, layer.data), floats(slots, layer.filters), epilogue, writable(slots, layer.out),
                        writable(slots, space));
      },
      present({layer.data, layer.filters, layer.bias, layer.residual, layer.out, space}), mask);
}

void add_bias_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, Slot out_grad, Slot gradient,
                       OutputMask mask) {
  const Dims y = shape.out.get_dims();
  builder.host(
      [=, dims = Dims{y[0] * y[2] * y[3], y[1], 1}](void* const* slots, const Call&) {
        sum_positions(floats(slots, out_grad), writable(slots, gradient), dims);
      },
      {out_grad, gradient}, mask);
}

}  // namespace mx::cpu
