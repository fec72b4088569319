// SPDX-License-Identifier: Apache-2.0
//
// Convolutions by Winograd's minimal filtering, as steps of a program. They take images with channels last and
// leave the filters where they are.
#pragma once

#include <optional>

#include "convolution_shape.h"
#include "winograd/convolution.h"
#include "winograd/filter_gradient.h"

namespace mx::onednn {

// The problem as minimal filtering knows it; nothing where it does not apply: other windows, types, processors.
std::optional<winograd::Problem> minimal_filtering(const ConvolutionOptions& options, const ConvolutionShape& shape);

// Where the filters of `weight`, (O, I, 3, 3) in any order of memory, lie.
winograd::FilterLayout filter_layout(const MemoryDesc& weight);

// Where a layer's filters come from and what it adds to the products; slots of inputs, -1 for none.
struct MinimalLayer {
  Slot data, filters, bias = -1, residual = -1, out;
  bool ready = false;            // the filters are transformed
  winograd::Epilogue epilogue;   // its activation
};

// Channels-last memory of a tensor (N, C, H, W).
MemoryDesc channels_last_of(const MemoryDesc& tensor);
// A vector of transformed filters.
MemoryDesc filter_points_of(const winograd::Problem& problem);

void add_convolution(ProgramBuilder& builder, const winograd::Problem& problem, const winograd::FilterLayout& layout,
                     const MinimalLayer& layer, OutputMask mask);
void add_filter_points(ProgramBuilder& builder, const winograd::Problem& problem, const winograd::FilterLayout& layout,
                       Slot filters, Slot points, OutputMask mask);
// `data` and `out_grad` with channels last -> the gradient of filters that lie as `layout` says.
void add_filter_gradient(ProgramBuilder& builder, const winograd::Problem& problem,
                         const winograd::FilterLayout& layout, Slot data, Slot out_grad, Slot gradient,
                         OutputMask mask);
// The sum of `out_grad` over all pixels.
void add_bias_gradient(ProgramBuilder& builder, const winograd::Problem& problem, Slot out_grad, Slot gradient,
                       OutputMask mask);

}  // namespace mx::onednn
