// SPDX-License-Identifier: Apache-2.0
//
// Images of 8-bit channels, rows of interleaved pixels, red first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mx::io {

// Owns: nothing.  Channels of a pixel and pixels of a row are adjacent.
struct ImageView {
  const uint8_t* pixels = nullptr;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int64_t row_bytes = 0;

  const uint8_t* row(int64_t y) const { return pixels + y * row_bytes; }
  ImageView crop(int64_t x, int64_t y, int64_t w, int64_t h) const {
    return {pixels + y * row_bytes + x * channels, h, w, channels, row_bytes};
  }
};

struct Image {
  std::vector<uint8_t> pixels;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;

  void reshape(int64_t h, int64_t w, int64_t c) {
    pixels.resize(static_cast<size_t>(h * w * c));
    height = h, width = w, channels = c;
  }
  uint8_t* row(int64_t y) { return pixels.data() + y * width * channels; }
  ImageView view() const { return {pixels.data(), height, width, channels, width * channels}; }
};

inline uint8_t saturate(float value) {
  return !(value > 0.0F) ? 0 : value >= 255.0F ? 255 : static_cast<uint8_t>(value + 0.5F);  // 0 for NaN
}

}  // namespace mx::io
