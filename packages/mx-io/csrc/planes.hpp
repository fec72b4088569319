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

// One row of an image: out[c * area + x] = pixel * slope[c] + offset[c]; `mirrored` exchanges left and right.
void write_float_row(const uint8_t* row, int64_t width, int64_t channels, bool mirrored, const PlaneScale& scale,
                     int64_t area, float* out);
// out[c * area + x] = the pixel, of at most `most`
void write_byte_row(const uint8_t* row, int64_t width, int64_t channels, bool mirrored, uint8_t most, int64_t area,
                    uint8_t* out);

}  // namespace mx::io
