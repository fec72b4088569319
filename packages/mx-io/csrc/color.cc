// SPDX-License-Identifier: Apache-2.0
#include "color.hpp"

#include <algorithm>
#include <cmath>

namespace mx::io {
namespace {

// ITU-R BT.601 luma.
float grey(const uint8_t* pixel) { return 0.299F * pixel[0] + 0.587F * pixel[1] + 0.114F * pixel[2]; }

template <class Function>
void for_each_pixel(Image& image, Function&& function) {
  uint8_t* const end = image.pixels.data() + image.pixels.size();
  for (uint8_t* pixel = image.pixels.data(); pixel != end; pixel += image.channels) function(pixel);
}

int64_t colours(const Image& image) { return std::min<int64_t>(image.channels, 3); }

// out = in * factor + offset
void linear(Image& image, float factor, float offset) {
  const int64_t count = colours(image);
  for_each_pixel(image, [&](uint8_t* pixel) {
    for (int64_t c = 0; c < count; ++c) pixel[c] = saturate(pixel[c] * factor + offset);
  });
}

}  // namespace

void scale_brightness(Image& image, float factor) { linear(image, factor, 0.0F); }

void scale_contrast(Image& image, float factor) {
  double sum = 0.0;
  const bool coloured = image.channels >= 3;
  for_each_pixel(image, [&](const uint8_t* pixel) { sum += coloured ? grey(pixel) : pixel[0]; });
  const double count = static_cast<double>(std::max<int64_t>(1, image.height * image.width));
  linear(image, factor, static_cast<float>(sum / count) * (1.0F - factor));
}

void scale_saturation(Image& image, float factor) {
  if (image.channels < 3) return;
  for_each_pixel(image, [&](uint8_t* pixel) {
    const float offset = grey(pixel) * (1.0F - factor);
    for (int c = 0; c < 3; ++c) pixel[c] = saturate(pixel[c] * factor + offset);
  });
}

void shift_hls(Image& image, float hue, float lightness, float saturation) {
  if (image.channels < 3) return;
  for_each_pixel(image, [&](uint8_t* pixel) {
    const float r = pixel[0] / 255.0F, g = pixel[1] / 255.0F, b = pixel[2] / 255.0F;
    const float high = std::max({r, g, b}), low = std::min({r, g, b});
    const float range = high - low;
    float l = (high + low) / 2;
    float s = range <= 0.0F ? 0.0F : l < 0.5F ? range / (high + low) : range / (2 - high - low);
    float h = 0.0F;  // in sixths of the circle
    if (range > 0.0F) {
      if (high == r) h = (g - b) / range;
      else if (high == g) h = (b - r) / range + 2;
      else h = (r - g) / range + 4;
    }
    h = std::fmod(h + hue / 30.0F + 12.0F, 6.0F);
    l = std::clamp(l + lightness / 255.0F, 0.0F, 1.0F);
    s = std::clamp(s + saturation / 255.0F, 0.0F, 1.0F);
    const float chroma = (1 - std::fabs(2 * l - 1)) * s;
    for (int c = 0; c < 3; ++c) {
      const float sector = std::fmod(h + (c == 0 ? 0.0F : c == 1 ? 4.0F : 2.0F), 6.0F);
      const float share = std::clamp(std::fabs(sector - 3.0F) - 1.0F, 0.0F, 1.0F);
      pixel[c] = saturate(255.0F * (l + chroma * (share - 0.5F)));
    }
  });
}

void shift_channels(Image& image, const float (&shift)[3]) {
  const int64_t count = colours(image);
  for_each_pixel(image, [&](uint8_t* pixel) {
    for (int64_t c = 0; c < count; ++c) pixel[c] = saturate(pixel[c] + shift[c]);
  });
}

}  // namespace mx::io
