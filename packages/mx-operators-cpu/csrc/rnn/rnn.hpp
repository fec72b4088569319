// SPDX-License-Identifier: Apache-2.0
//
// Recurrent stacks: RNN, GRU, LSTM, with their gradients and prepacked weights.
// They throw Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

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

}  // namespace mx::cpu
