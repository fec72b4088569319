// SPDX-License-Identifier: Apache-2.0
//
// The elementwise part of a step of a recurrent layer, fused.  Float32, compiled for several
// instruction sets, on the calling thread, over some rows of the batch.  Gates lie side by side.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace mx::onednn {

// Rows [begin, end) of one step.
struct CellForward {
  int64_t begin, end, units;
  const float* recurrent;  // R h, (N, G H)
  const float* bias;       // (G + 1, H): both biases summed; of gru's last gate b_W, then b_R
  const float* h_before;   // (N, H)
  const float* c_before;   // lstm: (N, H)
  float* gates;            // (N, G H): W x, afterwards the gates
  float* value;            // (N, H): lstm: c; gru: R h + b_R of the last gate
  float* h;                // (N, H); may be h_before
  float* output;           // h again
  int64_t output_stride;
};
void cell_forward(RnnMode mode, const CellForward& step);

struct CellBackward {
  int64_t begin, end, units;
  const float* gates;      // kept by forward; of cells with one gate the output, with output_stride
  const float* value;
  const float* h_before;   // gru
  int64_t h_before_stride;
  const float* c_before;   // lstm
  int64_t output_stride;   // of head, and of gates if there is one
  const float* head;       // gradient of the output
  float* dh;               // (N, H): gradient of h; gru: afterwards the part that bypasses the gates
  float* dc;               // lstm: (N, H): gradient of c, afterwards of c_before
  float* d_gates;          // (N, G H): gradient of W x
  float* d_recurrent;      // gru: (N, G H): gradient of R h
};
void cell_backward(RnnMode mode, const CellBackward& step);

// y = x * mask
void multiply(const float* x, const float* mask, float* y, int64_t n);
// 1 / (1 - p) where element `first + i` of a stream is kept, else 0.  `first` is a multiple of 4.
void draw_mask(uint64_t key, uint64_t offset, int64_t first, int64_t n, double p, float* mask);

}  // namespace mx::onednn
