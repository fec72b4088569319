// SPDX-License-Identifier: Apache-2.0
//
// Rotation, shear and scaling about the image's centre, with a border of one value.
#pragma once

#include "image.hpp"

namespace mx::io {

struct Affine {
  float degrees = 0.0F;       // counter-clockwise
  float shear = 0.0F;         // horizontal shift per unit of height
  float scale_x = 1.0F;
  float scale_y = 1.0F;
};

// Bilinear; what lies outside `source` has the value `fill`.  `out` keeps the centre in place.
void transform(const ImageView& source, const Affine& affine, int64_t height, int64_t width, uint8_t fill,
               Image& out);

}  // namespace mx::io
