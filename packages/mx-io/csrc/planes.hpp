// SPDX-License-Identifier: Apache-2.0
//
// From interleaved pixels to planes of another element type.
#pragma once

#include "image.hpp"

namespace mx::io {

// One value a channel.
struct PlaneScale {
  float slope[4];
  float offset[4];
};

// out[c][y][x] = pixel * slope[c] + offset[c]; `mirrored` exchanges left and right.
void write_float_planes(const ImageView& image, bool mirrored, const PlaneScale& scale, float* out);
// out[c][y][x] = pixel
void write_byte_planes(const ImageView& image, bool mirrored, uint8_t* out);

}  // namespace mx::io
