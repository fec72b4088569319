// SPDX-License-Identifier: Apache-2.0
//
// A normalization in training, or its gradient, as a graph of cuDNN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph_plan.hpp"

namespace mx::cuda::dnn {

// y = (x - mean) * inverse * scale + bias with inverse = 1 / sqrt(variance + epsilon), and the gradients of x, scale
// and bias.  Mean and inverse are float32 and are those of the batch for each channel, or of each example (its channels
// and space).
struct Norm {
  enum Mode : int { kLayer = 0, kBatch = 2 };  // cudnnBackendNormMode_t
  Mode mode;
  bool gradient;
  int32_t dtype;    // mx_dtype of x and y: float32, float16 or bfloat16
  int32_t vectors;  // that of scale, bias and their gradients
  bool last;        // channels are the last axis in memory
  std::vector<int64_t> x;  // examples, channels, space (two axes)
  float epsilon;
};

// Its plan.  Ids of tensors: x, y, scale, bias, mean, inverse; or x, gradient of y, scale, mean, inverse, gradients of
// scale, bias and x.
class NormPlan : public GraphPlan {
 public:
  // Throws like GraphPlan.
  NormPlan(const Norm& what, const Choice& choice, const Gpu* gpu, const std::string& properties);
};

}  // namespace mx::cuda::dnn
