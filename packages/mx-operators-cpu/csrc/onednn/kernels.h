// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of this folder: a function from a signature and parameters to a plan.  They throw
// Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "plan.h"

namespace mx::onednn {

// A sliding window over the spatial axes, one entry per axis.
struct Window {
  Dims kernel, stride, dilate, pad;
};

struct ConvolutionOptions {
  Window window;
  int64_t groups = 1;
  bool channels_last = false;  // NWC, NHWC, NDHWC; weights (filters, *kernel, channels)
  bool winograd = true;        // minimal filtering is allowed
};

// data, weight[, bias] -> output
PlanPtr convolution(const Signature& signature, const ConvolutionOptions& options);
PlanPtr deconvolution(const Signature& signature, const ConvolutionOptions& options);
// out_grad, data, weight -> data_grad, weight_grad[, bias_grad]
PlanPtr convolution_backward(const Signature& signature, const ConvolutionOptions& options);
PlanPtr deconvolution_backward(const Signature& signature, const ConvolutionOptions& options);

// data, weight[, bias] -> output; data is seen as (rows, columns of weight)
PlanPtr fully_connected(const Signature& signature);
// out_grad, data, weight -> data_grad, weight_grad[, bias_grad]
PlanPtr fully_connected_backward(const Signature& signature);

// Batches of matrices: (m, k) x (k, n), each operand row-major or transposed in memory.
struct MatmulOptions {
  int64_t batch = 1, m = 1, k = 1, n = 1;
  bool transpose_a = false, transpose_b = false;
  bool scaled = false;  // times the run-time scalar alpha; a third input is added times beta
};
// a, b[, c] -> output
PlanPtr matmul(const Signature& signature, const MatmulOptions& options);
// out_grad, a, b -> a_grad, b_grad
PlanPtr dot_backward(const Signature& signature, const MatmulOptions& options);

enum class PoolType { max, avg, sum, lp };

struct PoolOptions {
  Window window;
  PoolType type = PoolType::max;
  bool count_include_pad = true;
  int p = 2;
  bool channels_last = false;  // (batch, *spatial, channels) instead of (batch, channels, *spatial)
};
// data -> output; out_grad, data, output -> data_grad.
PlanPtr pooling(const Signature& signature, const PoolOptions& options);
PlanPtr pooling_backward(const Signature& signature, const PoolOptions& options);

struct BatchNormOptions {
  int64_t axis = 1;
  double eps = 1e-3, momentum = 0.9;
  bool fix_gamma = true;
  bool use_batch_stats = true;  // training without use_global_stats
};
// data, gamma, beta, moving_mean, moving_var -> output, mean, var
PlanPtr batch_norm(const Signature& signature, const BatchNormOptions& options);
// out_grad, data, gamma, mean, var, moving_mean, moving_var -> data_grad, gamma_grad, beta_grad
PlanPtr batch_norm_backward(const Signature& signature, const BatchNormOptions& options);

struct LayerNormOptions {
  int64_t axis = -1;
  double eps = 1e-5;
};
// data, gamma, beta -> output, mean, std
PlanPtr layer_norm(const Signature& signature, const LayerNormOptions& options);
// out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad
PlanPtr layer_norm_backward(const Signature& signature, const LayerNormOptions& options);

struct GroupNormOptions {
  int64_t groups = 1;
  double eps = 1e-5;
};
// data, gamma, beta -> output, mean, std; one gamma and beta per group of channels
PlanPtr group_norm(const Signature& signature, const GroupNormOptions& options);
// out_grad, data, gamma, mean, std -> data_grad, gamma_grad, beta_grad
PlanPtr group_norm_backward(const Signature& signature, const GroupNormOptions& options);

struct LrnOptions {
  int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, knorm = 2;
};
// data -> output, norm; across axis 1
PlanPtr lrn(const Signature& signature, const LrnOptions& options);
// out_grad, data, norm -> data_grad
PlanPtr lrn_backward(const Signature& signature, const LrnOptions& options);

struct SoftmaxOptions {
  Dims view;  // the shape the axis refers to
  int axis = -1;
  bool logarithm = false;
  double temperature = 1;
};
// data -> output; extra inputs (a label) are not read
PlanPtr softmax(const Signature& signature, const SoftmaxOptions& options);
// out_grad, output -> data_grad
PlanPtr softmax_backward(const Signature& signature, const SoftmaxOptions& options);

// data, label -> loss: the sum of the rows' -log softmax at their labels
PlanPtr cross_entropy(const Signature& signature);
// out_grad, data, label -> data_grad
PlanPtr cross_entropy_backward(const Signature& signature);

enum class RnnMode { relu, tanh, gru, lstm };

struct RnnOptions {
  RnnMode mode = RnnMode::lstm;
  int64_t layers = 1, directions = 1, units = 1;
  bool state_outputs = false;
  double dropout = 0;  // between layers
  bool has_mask = false, is_train = false;
  uint64_t random_blocks = 0;
  bool has_lengths = false;  // of the sequences, last of the forward inputs; float32
  bool packed = false;       // parameters are what `pack_rnn` makes; without training
};
// data, parameters, state[, state_cell][, sequence_length]
// -> output[, state_output[, statecell_output]][, reserve, unless parameters are packed][, mask]
PlanPtr rnn(const Signature& signature, const RnnOptions& options);
// What packed parameters are for that signature, with parameters that are not packed.
struct PackedRnn {
  int64_t size = 0;             // float32 numbers; 0: they cannot be packed
  std::vector<int64_t> format;  // equal for equal orders; empty where that cannot be told
};
PackedRnn packed_rnn(const Signature& signature, const RnnOptions& options);
// parameters -> packed parameters, for a stack that reads such data
PlanPtr pack_rnn(const Signature& signature, const Spec& data, const RnnOptions& options);
// out-gradients of output and states, the forward inputs, output[, reserve][, mask] -> gradients of
// the forward inputs but the lengths
PlanPtr rnn_backward(const Signature& signature, const RnnOptions& options);

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

enum class Normalization { none, batch, valid };

struct SoftmaxOutputOptions {
  int64_t rows = 1, classes = 1, inner = 1;  // output seen as (rows, classes, inner)
  double smooth_alpha = 0;
  bool use_ignore = false, label_is_distribution = false;
  Normalization normalization = Normalization::none;
};
// label, output -> data_grad; run-time scalars grad_scale, ignore_label
PlanPtr softmax_output_backward(const Signature& signature, const SoftmaxOutputOptions& options);

}  // namespace mx::onednn
