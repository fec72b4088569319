// SPDX-License-Identifier: Apache-2.0
//
// Attention: the interleaved products of transformers, and fused attention.
// They throw Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

struct AttentionOptions {
  int64_t heads = 1;
  int64_t parts = 3;  // of the projections that hold keys and values: 3 with queries, 2 without
};
// queries_keys_values, or queries and keys_values -> scores
PlanPtr attention_scores(const Signature& signature, const AttentionOptions& options);
// out_grad, the forward inputs -> their gradients
PlanPtr attention_scores_backward(const Signature& signature, const AttentionOptions& options);
// the projection with values, attention -> output
PlanPtr attention_values(const Signature& signature, const AttentionOptions& options);
// out_grad, the forward inputs -> their gradients
PlanPtr attention_values_backward(const Signature& signature, const AttentionOptions& options);

struct FusedAttentionOptions {
  int64_t heads = 1;  // side by side in the last axis
  double scale = 1;   // of the scores
};
// query (N, Tq, heads depth), key (N, Tk, heads depth), value (N, Tk, heads width)
// -> (N, Tq, heads width): softmax(scale query key^T) value of every head
PlanPtr fused_attention(const Signature& signature, const FusedAttentionOptions& options);

}  // namespace mx::cpu
