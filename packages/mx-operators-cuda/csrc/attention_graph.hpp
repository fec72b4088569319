// SPDX-License-Identifier: Apache-2.0
//
// Attention, and its gradient, as a graph of cuDNN.
#pragma once

#include <cstdint>
#include <string>

#include "graph_plan.hpp"

namespace mx::cuda::dnn {

// y = softmax(scale * query * key^T) * value of each head, and its gradients.  Tensors are (examples, rows,
// heads * depth), with the heads side by side.  In training the statistics are also written: the logarithm of the sum
// of the powers of a row of scores, in float32, (examples, heads, rows of the query).
struct Attention {
  enum Stage : int { kInference = 0, kTraining = 1, kGradient = 2 };
  Stage stage;
  int32_t dtype;  // mx_dtype of all tensors but the statistics
  int64_t batch, heads;
  int64_t queries, keys;  // rows
  int64_t depth, width;   // of a head of query and key, and of value
  float scale;
};

// Its plan.  Ids of tensors: query, key, value, output, and in training statistics; or query, key, value, output,
// gradient of the output, statistics, gradients of query, key and value, and float32 numbers in the places of the
// statistics, which nobody needs afterwards.
class AttentionPlan : public GraphPlan {
 public:
  // Throws like GraphPlan.
  AttentionPlan(const Attention& what, const Choice& choice, const Gpu* gpu, const std::string& properties);
};

}  // namespace mx::cuda::dnn
