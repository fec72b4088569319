// SPDX-License-Identifier: Apache-2.0
//
// Convolutions whose window is one point are matrix products on row-major memory, image by image,
// and need no reorders: (filters, channels) x (channels, positions).
#pragma once

#include "convolution_shape.h"

namespace mx::onednn {

bool is_pointwise(const ConvolutionOptions& options, const ConvolutionShape& shape);

// data, weight[, bias] -> output
PlanPtr pointwise_convolution(const Signature& signature, const ConvolutionShape& shape);

// Appends the data gradient: weight transposed x out_grad.
void pointwise_data_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, int out_grad, int weight,
                             int data_grad);

}  // namespace mx::onednn
