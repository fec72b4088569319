// SPDX-License-Identifier: Apache-2.0
//
// The gradient of the filters of a convolution over images with few channels, as a network's first layer is: for every
// row of results, products of the image rows that its windows cover and the row's gradient. Channels are last; the
// number of filters is a multiple of kLanes.
#pragma once

#include <cstdint>

#include "convolution/winograd/transforms.hpp"

namespace mx::cpu {

struct ImageProblem {
  int64_t images, height, width, channels;
  int64_t out_height, out_width, filters;
  int64_t kernel_rows, kernel_columns, step_down, step_across, pad_top, pad_left;

  // Floats of a filter, and of one of its rows.
  int64_t taps() const { return kernel_rows * row_taps(); }
  int64_t row_taps() const { return kernel_columns * channels; }
};

// Whether the processor and the numbers of channels and filters suit it.
bool suits(const ImageProblem& problem);

class ImageGradient {
 public:
  ImageGradient(const ImageProblem& problem, int threads);
  int64_t workspace_size() const;  // floats
  void run(const float* data, const float* out_grad, float* gradient, const FilterLayout& layout,
           float* workspace) const;

 private:
  int64_t row_size() const;
  int64_t space_size() const;
  void add_row(const float* data, const float* out_grad, int64_t row, float* sums, float* padded) const;

  ImageProblem problem_;
  int threads_;
};

}  // namespace mx::cpu
