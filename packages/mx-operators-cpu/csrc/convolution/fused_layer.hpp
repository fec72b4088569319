// SPDX-License-Identifier: Apache-2.0
//
// A convolution, or fully connected layer, with everything that may follow it in one primitive: bias, a residual that is added,
// an activation; and its weight packed beforehand.
#pragma once

#include <string>
#include <vector>

#include "convolution/convolution.hpp"

namespace mx::cpu {

struct FusedOptions {
  bool product = false;            // a fully connected layer: `convolution` does not count
  ConvolutionOptions convolution;
  Dims weight_shape;  // of the weight as the operator has it, packed or not
  bool biased = false, residual = false, packed = false;
  std::string activation;  // "": none
  double alpha = 0, beta = 0;  // of the activation
};

// data, weight[, bias][, residual] -> output.  A packed weight is a vector of float32.
PlanPtr fused_layer(const Signature& signature, const FusedOptions& options);
// How many numbers the packed weight has for that signature, with a weight that is not packed.
int64_t packed_weight_size(const Signature& signature, const FusedOptions& options);
// What that order is, as numbers that are equal for equal orders; empty where it cannot be told.
std::vector<int64_t> packed_weight_format(const Signature& signature, const FusedOptions& options);
// weight -> packed weight, for a layer of that signature.  A convolution's weight may come with its channels first,
// whatever order the layer reads it in.
PlanPtr pack_weight(const Signature& signature, const Signature& layer, const FusedOptions& options, bool channels_first);

}  // namespace mx::cpu
