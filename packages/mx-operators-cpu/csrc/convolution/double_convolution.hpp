// SPDX-License-Identifier: Apache-2.0
//
// The like of convolution.hpp in float64, which oneDNN has none of.
#pragma once

#include "convolution/convolution.hpp"

namespace mx::cpu {

// `transposed`: deconvolution.
PlanPtr double_convolution(const Signature& signature, const ConvolutionOptions& options, bool transposed);
PlanPtr double_convolution_backward(const Signature& signature, const ConvolutionOptions& options, bool transposed);

}  // namespace mx::cpu
