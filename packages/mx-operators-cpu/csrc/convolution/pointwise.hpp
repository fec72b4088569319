// SPDX-License-Identifier: Apache-2.0
//
// Convolutions whose window is one point are matrix products on row-major memory, image by image,
// and need no reorders: (filters, channels) x (channels, positions).
#pragma once

#include "convolution/convolution_shape.hpp"

namespace mx::cpu {

bool is_pointwise(const ConvolutionOptions& options, const ConvolutionShape& shape);

// data, weight[, bias] -> output
PlanPtr pointwise_convolution(const Signature& signature, const ConvolutionShape& shape);

// Whether the backward pass gains too.
bool suits_pointwise_backward(const ConvolutionShape& shape);
// out_grad, data, weight -> data_grad, weight_grad[, bias_grad]
PlanPtr pointwise_backward(const Signature& signature, const ConvolutionShape& shape);

// The sums of `out_grad`, (images, filters, positions), per filter. Channels that are last are one position of many
// images.
void sum_positions(const float* out_grad, float* bias_grad, const Dims& dims);

}  // namespace mx::cpu
