// SPDX-License-Identifier: Apache-2.0
#include "affine.hpp"

#include <cmath>

namespace mx::io {

void transform(const ImageView& source, const Affine& affine, int64_t height, int64_t width, uint8_t fill,
               Image& out) {
  const int64_t channels = source.channels;
  out.reshape(height, width, channels);
  const double angle = affine.degrees * 3.14159265358979 / 180.0;
  const double a = std::cos(angle), b = std::sin(angle);
  // Forward map of offsets from the centre: scale, then shear, then rotate (y points down).
  const double m00 = affine.scale_x * a, m01 = affine.scale_y * (b + affine.shear * a);
  const double m10 = -affine.scale_x * b, m11 = affine.scale_y * (a - affine.shear * b);
  const double determinant = m00 * m11 - m01 * m10;
  const double i00 = m11 / determinant, i01 = -m01 / determinant;
  const double i10 = -m10 / determinant, i11 = m00 / determinant;
  const auto middle = [](int64_t length) { return (static_cast<double>(length) - 1) / 2; };
  const double from_x = middle(source.width), from_y = middle(source.height);
  const double to_x = middle(width), to_y = middle(height);

  const auto at = [&](int64_t x, int64_t y, int64_t c) -> float {
    const bool inside = x >= 0 && y >= 0 && x < source.width && y < source.height;
    return inside ? source.row(y)[x * channels + c] : fill;
  };
  for (int64_t y = 0; y < height; ++y) {
    uint8_t* row = out.row(y);
    for (int64_t x = 0; x < width; ++x) {
      const double dx = static_cast<double>(x) - to_x, dy = static_cast<double>(y) - to_y;
      const double sx = i00 * dx + i01 * dy + from_x, sy = i10 * dx + i11 * dy + from_y;
      // Also false for NaN, which a conversion to integer must not see.
      const bool near = sx > -1.0 && sy > -1.0 && sx < static_cast<double>(source.width) &&
                        sy < static_cast<double>(source.height);
      const auto left = near ? static_cast<int64_t>(std::floor(sx)) : -2;
      const auto top = near ? static_cast<int64_t>(std::floor(sy)) : -2;
      const auto fx = near ? static_cast<float>(sx - static_cast<double>(left)) : 0.0F;
      const auto fy = near ? static_cast<float>(sy - static_cast<double>(top)) : 0.0F;
      for (int64_t c = 0; c < channels; ++c) {
        const float upper = at(left, top, c) * (1 - fx) + at(left + 1, top, c) * fx;
        const float lower = at(left, top + 1, c) * (1 - fx) + at(left + 1, top + 1, c) * fx;
        row[x * channels + c] = saturate(upper * (1 - fy) + lower * fy);
      }
    }
  }
}

}  // namespace mx::io
