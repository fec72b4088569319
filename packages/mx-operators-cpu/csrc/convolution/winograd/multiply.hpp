// SPDX-License-Identifier: Apache-2.0
//
// The product at the heart of a transformed convolution: a few columns wide, everything in the caches. `T`: float or
// double.
#pragma once

#include <cstdint>

namespace mx::cpu {

// A matrix's element (r, c) is at data[r * row + c * column].
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;
};

// out (rows, width) = a (rows, depth) * b (depth, width), or out += that. The rows of b and of out are contiguous;
// `width` is a multiple of kLanesOf<T>, at most kPanel<T>.
template <class T>
void multiply(const Matrix<T>& a, const T* b, int64_t b_row, int64_t rows, int64_t depth, int64_t width, T* out,
              int64_t out_row, bool add);

}  // namespace mx::cpu
