// SPDX-License-Identifier: Apache-2.0
//
// Attention as a graph of cuDNN.
#pragma once

#include <cstdint>
#include <string>

#include "graph_plan.hpp"

namespace mx::cuda::dnn {

// softmax(scale * query * key^T) * value of each head, in inference.  Tensors are (examples, rows, heads * depth), with
// the heads side by side.
struct Attention {
  int32_t dtype;  // mx_dtype of all tensors
  int64_t batch, heads;
  int64_t queries, keys;  // rows
  int64_t depth, width;   // of a head of query and key, and of value
  float scale;
};

// Its plan.  Ids of tensors: query, key, value, output.
class AttentionPlan : public GraphPlan {
 public:
  // Throws like GraphPlan.
  AttentionPlan(const Attention& what, const Choice& choice, const Gpu* gpu, const std::string& properties);
};

}  // namespace mx::cuda::dnn
