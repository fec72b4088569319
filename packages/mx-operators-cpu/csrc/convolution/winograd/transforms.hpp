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
// A transformed tensor is 36 matrices, one per point; `step` is the distance from one to the next, in floats.
// Channels are contiguous and a multiple of kLanes.
#pragma once

#include <cstdint>

#include "common/lanes.hpp"

namespace mx::cpu {

constexpr int64_t kTile = 4;    // results of a tile, each way
constexpr int64_t kFilter = 3;  // of a filter
constexpr int64_t kPatch = kTile + kFilter - 1;
constexpr int64_t kPoints = kPatch * kPatch;
constexpr int64_t kPanel = 4 * kLanes;  // output channels that lie together in transformed filters

// What becomes of a convolution's result before it is written.
struct Epilogue {
  enum class Activation { none, relu, leaky, clip };
  const float* bias = nullptr;      // per output channel
  const float* residual = nullptr;  // laid out as the result, which it may be
  Activation activation = Activation::none;
  float alpha = 0, beta = 0;  // slope below zero; bounds of a clip
};

// Pixels of a patch, kPatch by kPatch, each of `channels` floats -> their points, at `out`.
void transform_data(const float* const* pixels, int64_t channels, float* out, int64_t step);
// The transpose of transform_result: gradients of a tile, kTile by kTile -> their points.
void transform_gradient(const float* const* pixels, int64_t channels, float* out, int64_t step);
// Points -> the pixels of a tile; `pixels` and the epilogue's residual are offsets in floats from `out` and the
// residual, negative for pixels outside of the image.
void transform_result(const float* points, int64_t step, int64_t channels, const Epilogue& epilogue, float* out,
                      const int64_t* pixels);

// A filter tensor in memory: distances, in floats, between input channels, output channels and taps.
struct FilterLayout {
  int64_t input, output, row, column;
  bool flipped = false;  // by 180 degrees, as gradients of data need it
};

// Sixteen output channels (from `first`) of one input channel -> their points. `out` belongs to that input
// channel and to the first of these output channels.
void transform_filters(const float* filters, const FilterLayout& layout, int64_t channel, int64_t first, float* out,
                       int64_t step);
// The transpose: points of the gradient of sixteen input channels (contiguous at `points`) of one output channel
// -> the gradients of their filters.
void transform_filter_gradient(const float* points, int64_t step, float* gradient, const FilterLayout& layout);

}  // namespace mx::cpu
