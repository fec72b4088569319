// SPDX-License-Identifier: Apache-2.0
//
// Convolutions in float32 with so little work that loops over padded copies of the images are done before a primitive
// has brought its tensors into its layouts and back; and a primitive takes longer to make than many runs of it.
#pragma once

#include "convolution/convolution.hpp"

namespace mx::cpu {

// `transposed`: deconvolution.  nullptr for convolutions that are not small.
PlanPtr small_convolution(const Signature& signature, const ConvolutionOptions& options, bool transposed);

}  // namespace mx::cpu
