// SPDX-License-Identifier: Apache-2.0
//
// Winograd convolution F(4x4, 3x3): four by four results of a three by three correlation from 36
// products of transformed values instead of 144 (A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural
// Networks, CVPR 2016, equations 4 to 12). With data d, filter g and result y
//     y = A' [(G g G') * (B' d B)] A,
// B, G, A by Toom and Cook's construction on the points 0, +-1/sqrt(2), +-sqrt(2) and infinity. Their products
// are 1, which keeps rounding errors about five times smaller than the customary points +-1, +-2 do (B. Barabasz
// et al., Error Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020).
//
// A transformed tensor is 36 matrices, one per point; `step` is the distance from one to the next, in elements.
// Elements, `T`, are float or double. Channels are contiguous and a multiple of kLanesOf<T>.
#pragma once

#include <cstdint>

#include "common/lanes.hpp"

namespace mx::cpu {

constexpr int64_t kTile = 4;    // results of a tile, each way
constexpr int64_t kFilter = 3;  // of a filter
constexpr int64_t kPatch = kTile + kFilter - 1;
constexpr int64_t kPoints = kPatch * kPatch;
template <class T>
constexpr int64_t kPanel = 4 * kLanesOf<T>;  // output channels that lie together in transformed filters

enum class WinogradActivation { none, relu, leaky, clip };

// What becomes of a convolution's result before it is written.
template <class T>
struct Epilogue {
  const T* bias = nullptr;      // per output channel
  const T* residual = nullptr;  // laid out as the result, which it may be
  WinogradActivation activation = WinogradActivation::none;
  T alpha = 0, beta = 0;  // slope below zero; bounds of a clip
};

// Pixels of a patch, kPatch by kPatch, each of `channels` elements -> their points, at `out`.
template <class T>
MX_AVX512 void transform_data(const T* const* pixels, int64_t channels, T* out, int64_t step);
// The transpose of transform_result: gradients of a tile, kTile by kTile -> their points.
template <class T>
MX_AVX512 void transform_gradient(const T* const* pixels, int64_t channels, T* out, int64_t step);
// Points -> the pixels of a tile; `pixels` and the epilogue's residual are offsets in elements from `out` and the
// residual, negative for pixels outside of the image.
template <class T>
MX_AVX512 void transform_result(const T* points, int64_t step, int64_t channels, const Epilogue<T>& epilogue, T* out,
                                const int64_t* pixels);

// A filter tensor in memory: distances, in elements, between input channels, output channels and taps.
struct FilterLayout {
  int64_t input, output, row, column;
  bool flipped = false;  // by 180 degrees, as gradients of data need it
};

// kLanesOf<T> output channels (from `first`) of one input channel -> their points. `out` belongs to that input
// channel and to the first of these output channels.
template <class T>
MX_AVX512 void transform_filters(const T* filters, const FilterLayout& layout, int64_t channel, int64_t first, T* out,
                                 int64_t step);
// The transpose: points of the gradient of kLanesOf<T> input channels (contiguous at `points`) of one output channel
// -> the gradients of their filters.
template <class T>
MX_AVX512 void transform_filter_gradient(const T* points, int64_t step, T* gradient, const FilterLayout& layout);

}  // namespace mx::cpu
