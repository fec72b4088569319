// SPDX-License-Identifier: Apache-2.0
//
// Convolutions by Winograd's algorithm, and gradients of a first layer's filters, as steps of a program. They
// take images with channels last and leave the filters where they are.
#pragma once

#include <optional>

#include "convolution/convolution_shape.hpp"
#include "convolution/first_layer_gradient.hpp"
#include "convolution/winograd/winograd_convolution.hpp"
#include "convolution/winograd/winograd_gradient.hpp"

namespace mx::cpu {

// What MX_WINOGRAD says; yes, where it is not set. The caller holds the GIL: Python may set it.
bool winograd_allowed();

// The problem as Winograd's algorithm knows it; nothing where it does not apply: other windows, types, processors.
std::optional<WinogradProblem> winograd_problem(const ConvolutionOptions& options, const ConvolutionShape& shape);

// The gradient of the filters as that of images with few channels; nothing where it is not one.
std::optional<ImageProblem> first_layer_problem(const ConvolutionOptions& options, const ConvolutionShape& shape);

// Where the filters of `weight`, (O, I, rows, columns) in any order of memory, lie.
FilterLayout filter_layout(const MemoryDesc& weight);

// Where a layer's filters come from and what it adds to the products; slots of inputs, -1 for none.
struct WinogradLayer {
  Slot data, filters, bias = -1, residual = -1, out;
  bool ready = false;            // the filters are transformed
  Epilogue<float> epilogue;      // its activation
};

// Channels-last memory of a tensor (N, C, H, W).
MemoryDesc channels_last_of(const MemoryDesc& tensor);
// A vector of transformed filters.
MemoryDesc filter_points_of(const WinogradProblem& problem);

void add_convolution(ProgramBuilder& builder, const WinogradProblem& problem, const FilterLayout& layout,
                     const WinogradLayer& layer, OutputMask mask);
void add_filter_points(ProgramBuilder& builder, const WinogradProblem& problem, const FilterLayout& layout,
                       Slot filters, Slot points, OutputMask mask);
// `data` and `out_grad` with channels last -> the gradient of filters that lie as `layout` says. `Gradient`:
// WinogradGradient<float> or ImageGradient.
template <class Gradient, class WinogradProblem>
void add_filter_gradient(ProgramBuilder& builder, const WinogradProblem& problem, const FilterLayout& layout,
                         Slot data, Slot out_grad, Slot gradient, OutputMask mask) {
  const Gradient made(problem, team_size());
  const Slot space = builder.scratch(plain({made.workspace_size()}, DataType::f32));
  builder.host(
      [=](void* const* slots, const Call&) {
        made.run(static_cast<const float*>(slots[data]), static_cast<const float*>(slots[out_grad]),
                 static_cast<float*>(slots[gradient]), layout, static_cast<float*>(slots[space]));
      },
      {data, out_grad, gradient, space}, mask);
}
// The sum of `out_grad`, which has channels last, over all pixels.
void add_bias_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, Slot out_grad, Slot gradient,
                       OutputMask mask);

}  // namespace mx::cpu
