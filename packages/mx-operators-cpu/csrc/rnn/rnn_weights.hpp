// SPDX-License-Identifier: Apache-2.0
//
// The weights of a recurrent stack as its steps read them: for each layer and direction the sum of
// the biases, W and R in the orders that their products like best.
#pragma once

#include <optional>
#include <vector>

#include "rnn/rnn_space.hpp"

namespace mx::cpu {

// T: what the operator's tensors hold.
template <class T>
class RnnWeights {
 public:
  // Products are planned for up to `threads`.
  RnnWeights(const RnnLayout& layout, RnnMode mode, int threads);

  struct Parts {
    const Wide<T>* bias;  // (G + 1, H): both biases summed; of gru's last gate b_W, then b_R
    const void* w;
    const void* r;
  };

  // Of one layer and direction, and of the whole stack.
  size_t bytes(int64_t layer) const { return parts_[layer > 0 ? 1 : 0].bytes(); }
  size_t bytes() const { return offset(layout_.layers, 0); }
  // Where a layer and direction begins.
  size_t offset(int64_t layer, int64_t direction) const;
  // Numbers that are equal where everything lies in one order; empty where that cannot be told.
  std::vector<int64_t> format() const;
  size_t scratchpad_bytes() const;

  // Brings what lies in the operator's `parameters` to `space`, or leaves weights there that lie well.
  Parts pack(const T* parameters, int64_t layer, int64_t direction, void* space) const;
  // What was brought there.
  Parts at(int64_t layer, const void* space) const;
  // `at`, with weights copied that `pack` would leave.
  void place(const T* parameters, int64_t layer, int64_t direction, void* space) const;

  // Steps whose input products are made at once, and that product.
  int64_t chunk() const { return chunk_; }
  const ProductOf<T>& of_input(int64_t layer) const { return *input_[layer > 0 ? 1 : 0]; }
  const ProductOf<T>& of_state() const { return *state_; }

 private:
  struct Sizes {
    size_t bias, w, r;
    size_t bytes() const { return bias + w + r; }
  };

  const RnnLayout layout_;
  const bool apart_;  // gru: the b_R of its last gate is multiplied with another gate
  int64_t chunk_;
  std::optional<ProductOf<T>> input_[2], state_;  // of the first layer, of the others
  Sizes parts_[2];
};

}  // namespace mx::cpu
