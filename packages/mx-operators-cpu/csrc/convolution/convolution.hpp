// SPDX-License-Identifier: Apache-2.0
//
// Convolution, deconvolution and their gradients.
// They throw Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "common/window.hpp"
#include "common/plan.hpp"

namespace mx::cpu {

struct ConvolutionOptions {
  Window window;
  int64_t groups = 1;
  bool channels_last = false;  // NWC, NHWC, NDHWC; weights (filters, *kernel, channels)
  bool winograd = true;        // Winograd's algorithm is allowed
};

// data, weight[, bias] -> output
PlanPtr convolution(const Signature& signature, const ConvolutionOptions& options);
PlanPtr deconvolution(const Signature& signature, const ConvolutionOptions& options);
// out_grad, data, weight -> data_grad, weight_grad[, bias_grad]
PlanPtr convolution_backward(const Signature& signature, const ConvolutionOptions& options);
PlanPtr deconvolution_backward(const Signature& signature, const ConvolutionOptions& options);

}  // namespace mx::cpu
