// SPDX-License-Identifier: Apache-2.0
//
// Colour changes of 8-bit images in place; channels beyond the third (alpha) stay.
#pragma once

#include "image.hpp"

namespace mx::io {

void scale_brightness(Image& image, float factor);
void scale_contrast(Image& image, float factor);    // about the image's mean grey
void scale_saturation(Image& image, float factor);  // about each pixel's grey
// Adds to hue (of 180), lightness (of 255) and saturation (of 255).  Three channels or more.
void shift_hls(Image& image, float hue, float lightness, float saturation);
// Adds one value per channel.
void shift_channels(Image& image, const float (&shift)[3]);

}  // namespace mx::io
