// SPDX-License-Identifier: Apache-2.0
//
// Resizing by two positions an axis in fixed point: the same bytes on every machine, a row at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "image.hpp"

namespace mx::io {

// Of one axis: the left of two neighbouring positions for each new one, and the share of the right one, 0 to 1.
struct Neighbours {
  std::vector<int32_t> left;
  std::vector<float> share;
};

// Rows of a resized image.  Owns nothing of `source`, which outlives it.  Threads: one at a time.
class LinearRows {
 public:
  // Behind a row that is asked for, so many bytes may be written.
  static constexpr int64_t kSlack = 32;

  // The image is resized to as many rows and columns as the axes have.
  void begin(const ImageView& source, const Neighbours& rows, const Neighbours& columns);
  // Row `y` into `out`, pixels adjacent.
  void row(int64_t y, uint8_t* out);

 private:
  ImageView source_;
  std::vector<int32_t> upper_;
  std::vector<int16_t> share_;    // of the lower row, 15 bits of fraction
  std::vector<int32_t> left_;     // values before the left one
  std::vector<int16_t> weights_;  // of left and right, 14 bits of fraction, four times for each pixel
  std::vector<int16_t> mixed_;    // of two rows, 7 bits of fraction
  int64_t width_ = 0;
};

}  // namespace mx::io
