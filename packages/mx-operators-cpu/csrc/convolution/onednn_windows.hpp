// SPDX-License-Identifier: Apache-2.0
//
// Which convolutions the kernels of oneDNN 3.2 compute, and compute right.
#pragma once

#include <cstdint>
#include <vector>

namespace mx::cpu {

// One axis of a convolution between a large tensor and a small one.
struct WindowAxis {
  int64_t large, small;
  int64_t extent;  // of the kernel, gaps included
  int64_t stride, pad_begin, pad_end;
};

// Whether there are more for bfloat16 than references, which are a hundred times slower, as are those of its reorders.
bool has_bfloat16_kernels();

// Whether these compute windows right; `channels`: of one group of the large tensor.  Where it says no, float32 kernels
// compute the same.
bool bfloat16_kernels_suit(const std::vector<WindowAxis>& axes, int64_t channels);

// Whether the float32 kernels compute gradients of filters right, too, and within their memory: those for AVX-512 in
// three dimensions do not where windows skip data in depth and are padded beyond their middle.
bool filter_gradients_suit(const std::vector<WindowAxis>& axes);

}  // namespace mx::cpu
