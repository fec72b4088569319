// SPDX-License-Identifier: Apache-2.0
//
// Resizing by separable interpolation, with OpenCV's sampling positions (pixel centres at half
// integers) and kernels, as MXNet's `interp` codes name them.
#pragma once

#include <memory>
#include <vector>

#include "image.hpp"

namespace mx::io {

enum class Interpolation { kNearest = 0, kLinear = 1, kCubic = 2, kArea = 3, kLanczos = 4 };

// Resizes `source` to height × width pixels at `out` (adjacent rows).  All sizes are positive.
// Area means box averaging unless a side grows; then it means the mixture of two pixels by the parts of the new one
// that they cover, on both axes.
void resize(const ImageView& source, uint8_t* out, int64_t height, int64_t width, Interpolation kernel);

// The same a row at a time, each of them once and in order.  `source` outlives it.  Threads: one at a time.
class ResizedRows {
 public:
  // Behind a row, so many bytes may be written.
  static constexpr int64_t kSlack = 32;

  ResizedRows(const ImageView& source, int64_t height, int64_t width, Interpolation kernel);
  ~ResizedRows();
  void row(int64_t y, uint8_t* out);

 private:
  struct Linear;
  struct Filtered;
  ImageView source_;
  int64_t height_, width_;
  std::unique_ptr<Linear> linear_;
  std::unique_ptr<Filtered> filtered_;
};

// Code 9 chooses by direction: area when shrinking, cubic when growing, linear otherwise.
Interpolation choose_interpolation(const ImageView& source, int64_t height, int64_t width);

}  // namespace mx::io
