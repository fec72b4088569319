// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/tiles.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kMostFiltersApart = 3 << 20;  // bytes of transformed filters that stay in a core's own cache

// Pixels beyond the border are read from here.
alignas(64) const float zeros[kMostChannels] = {};

}  // namespace

bool fits_apart(const WinogradProblem& p, int threads) {
  return FilterPoints(p).size() * kFloat <= kMostFiltersApart && p.tiles() >= kGroupApart * threads;
}

void data_points(const WinogradProblem& p, const float* data, int64_t index, float* out, int64_t step) {
  const Tile t = tile(p, index);
  const float* const outside = zeros;
  const float* pixels[kPoints];
  for_pixels(t.image, t.y - p.pad_top, t.x - p.pad_left, kPatch, p.height, p.width, p.channels,
             [&](int64_t i, int64_t pixel) { pixels[i] = pixel < 0 ? outside : data + pixel; });
  transform_data(pixels, p.channels, out, step);
}

void gradient_points(const WinogradProblem& p, const float* out_grad, int64_t index, float* out, int64_t step) {
  const Tile t = tile(p, index);
  const float* const outside = zeros;
  const float* pixels[kTile * kTile];
  for_pixels(t.image, t.y, t.x, kTile, p.out_height, p.out_width, p.filters,
             [&](int64_t i, int64_t pixel) { pixels[i] = pixel < 0 ? outside : out_grad + pixel; });
  transform_gradient(pixels, p.filters, out, step);
}

}  // namespace mx::cpu
