// SPDX-License-Identifier: Apache-2.0
//
// The elementwise part of a step of a recurrent layer, fused, compiled for several instruction
// sets, on the calling thread, over some rows of the batch.  Gates lie side by side.
// T is what tensors hold: float, double or BFloat16, which is computed with in float.
#pragma once

#include <cstdint>

#include "common/bfloat16.hpp"
#include "common/elements.hpp"
#include "rnn/rnn.hpp"

namespace mx::cpu {

// Rows [begin, end) of one step.
template <class T>
struct CellForward {
  int64_t begin, end, units;
  Wide<T>* recurrent;         // R h, (N, G H); not kept by BFloat16
  const Wide<T>* bias;        // (G + 1, H): both biases summed; of gru's last gate b_W, then b_R
  Wide<T>* gates;             // (N, G H): W x; likewise
  const Wide<T>* state_before;  // (N, H): lstm: c; gru: h
  Wide<T>* state;             // after the step; may be state_before.  But of BFloat16 lstm's is value, gru's h
  T* kept;                    // (N, G H): the gates after their functions; but of BFloat16 may be gates
  T* value;                   // (N, H): lstm: c; gru: R h + b_R of the last gate.  Of BFloat16 both may be nullptr
  T* h;                       // (N, H)
  T* output;                  // h again
  int64_t output_stride;
};
template <class T>
void cell_forward(RnnMode mode, const CellForward<T>& step);

template <class T>
struct CellBackward {
  int64_t begin, end, units;
  const T* gates;             // kept by forward; of cells with one gate the output, with output_stride
  const T* value;
  const T* h_before;          // gru
  int64_t h_before_stride;
  const T* c_before;          // lstm
  int64_t output_stride;      // of head, and of gates if there is one
  const T* head;              // gradient of the output
  Wide<T>* dh;                // (N, H): gradient of h; gru: afterwards the part that bypasses the gates
  Wide<T>* dc;                // lstm: (N, H): gradient of c, afterwards of c_before
  T* d_gates;                 // (N, G H): gradient of W x
  T* d_recurrent;             // gru: (N, G H): gradient of R h
};
template <class T>
void cell_backward(RnnMode mode, const CellBackward<T>& step);

// y = x * mask
template <class T>
void multiply(const T* x, const T* mask, T* y, int64_t n);
// 1 / (1 - p) where element `first + i` of a stream is kept, else 0.  `first` is a multiple of 4.
template <class T>
void draw_mask(uint64_t key, uint64_t offset, int64_t first, int64_t n, double p, T* mask);

}  // namespace mx::cpu
