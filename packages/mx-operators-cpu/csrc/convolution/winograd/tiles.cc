// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/tiles.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kMostFiltersApart = 3 << 20;  // bytes of transformed filters that stay in a core's own cache

// Pixels beyond the border are read from here.
template <class T>
alignas(64) const T zeros[kMostChannels] = {};

}  // namespace

template <class T>
bool fits_apart(const WinogradProblem& p, int threads) {
  return FilterPoints<T>(p).bytes() <= kMostFiltersApart && p.tiles() >= kGroupApart * threads;
}

template <class T>
void data_points(const WinogradProblem& p, const Pixels<T>& data, int64_t index, T* out, int64_t step) {
  const Tile t = tile(p, index);
  const T* const outside = zeros<T>;
  const T* pixels[kPoints];
  for_pixels(t.image, t.y - p.pad_top, t.x - p.pad_left, kPatch, p.height, p.width, p.channels,
             [&](int64_t i, int64_t pixel) { pixels[i] = pixel < 0 ? outside : data.at(pixel); });
  transform_data(pixels, p.channels, out, step);
}

template <class T>
void gradient_points(const WinogradProblem& p, const Pixels<T>& out_grad, int64_t index, T* out, int64_t step) {
  const Tile t = tile(p, index);
  const T* const outside = zeros<T>;
  const T* pixels[kTile * kTile];
  for_pixels(t.image, t.y, t.x, kTile, p.out_height, p.out_width, p.filters,
             [&](int64_t i, int64_t pixel) { pixels[i] = pixel < 0 ? outside : out_grad.at(pixel); });
  transform_gradient(pixels, p.filters, out, step);
}

#define MX_INSTANTIATE(T)                                                                    \
  template bool fits_apart<T>(const WinogradProblem&, int);                                  \
  template void data_points(const WinogradProblem&, const Pixels<T>&, int64_t, T*, int64_t); \
  template void gradient_points(const WinogradProblem&, const Pixels<T>&, int64_t, T*, int64_t);
MX_INSTANTIATE(float)
MX_INSTANTIATE(double)
#undef MX_INSTANTIATE

}  // namespace mx::cpu
