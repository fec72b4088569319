// SPDX-License-Identifier: Apache-2.0
//
// A convolution, or a gradient of one, as a graph of cuDNN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph_plan.hpp"

namespace mx::cuda::dnn {

// What is computed: y from x and w, the gradient of x from y and w, or the gradient of w from x and y.
struct Convolution {
  enum Result : int { kY, kX, kW };
  Result result;
  int32_t dtype;                 // mx_dtype of all tensors: float32, float16 or bfloat16
  bool last;                     // channels are the last axis in memory
  bool bias;                     // is added to what is computed, along its channels
  bool add;                      // the result is added to what is there
  std::vector<int64_t> x, w, y;  // examples or filters, channels, space; filters have the channels of one group
  std::vector<int64_t> stride, dilate, pad;
  bool residual = false;  // a tensor of the same extents is added after the bias
  bool relu = false;      // only the positive part is kept

  bool epilogue() const { return bias || residual || relu; }
  const std::vector<int64_t>& extents() const { return result == kY ? y : result == kX ? x : w; }
};

// The ids of tensors in a graph; the last one and those after it are of what is between operations.
enum Id : int64_t { kIdX = 1, kIdW, kIdY, kIdBias, kIdResidual, kIdBetween };

// Its plan.
class ConvolutionPlan : public GraphPlan {
 public:
  // Throws like GraphPlan.
  ConvolutionPlan(const Convolution& what, const Choice& choice, const Gpu* gpu, const std::string& properties);
};

}  // namespace mx::cuda::dnn
