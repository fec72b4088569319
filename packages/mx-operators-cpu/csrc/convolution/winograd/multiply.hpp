// SPDX-License-Identifier: Apache-2.0
//
// The product at the heart of a transformed convolution: a few columns wide, everything in the caches.
#pragma once

#include <cstdint>

namespace mx::cpu {

// A matrix's element (r, c) is at data[r * row + c * column].
struct Matrix {
  const float* data;
  int64_t row, column;
};

// out (rows, width) = a (rows, depth) * b (depth, width), or out += that. The rows of b and of out are contiguous;
// `width` is a multiple of kLanes, at most kPanel.
void multiply(const Matrix& a, const float* b, int64_t b_row, int64_t rows, int64_t depth, int64_t width, float* out,
              int64_t out_row, bool add);

}  // namespace mx::cpu
