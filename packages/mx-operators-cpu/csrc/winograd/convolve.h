// SPDX-License-Identifier: Apache-2.0
//
// Convolutions with three by three filters and steps of one, and their gradients, as products of transformed
// tensors. Images are (images, height, width, channels); numbers of channels are multiples of kLanes.
#pragma once

#include <cstdint>

#include "transforms.h"

namespace mx::winograd {

struct Problem {
  int64_t images, height, width, channels;
  int64_t out_height, out_width, filters;
  int64_t pad_top, pad_left;

  int64_t tiles_down() const { return (out_height + kTile - 1) / kTile; }
  int64_t tiles_across() const { return (out_width + kTile - 1) / kTile; }
  int64_t tiles() const { return images * tiles_down() * tiles_across(); }
  // The convolution that makes the gradient of this one's data from that of its result.
  Problem of_data_gradient() const {
    return {images, out_height, out_width, filters, height, width, channels,
            kFilter - 1 - pad_top, kFilter - 1 - pad_left};
  }
};

// Whether the processor and the numbers of channels allow it.
bool possible(const Problem& problem);
// Whether it is expected to be faster than a direct convolution; `ready`: the filters are transformed already.
bool pays(const Problem& problem, bool ready);
// Whether the gradient of the filters is.
bool gradient_pays(const Problem& problem);

// Floats of the transformed filters.
int64_t filter_points_size(const Problem& problem);
void make_filter_points(const Problem& problem, const float* filters, const FilterLayout& layout, float* points);

// How a convolution is cut into groups of tiles, for a team of threads.
class Convolution {
 public:
  Convolution(const Problem& problem, int threads);
  int64_t workspace_size() const;  // floats
  // `filters`: what make_filter_points made.
  void run(const float* data, const float* filters, const Epilogue& epilogue, float* out, float* workspace) const;

 private:
  struct Space;
  Space space(float* workspace, int copy) const;
  void transform_tiles(const float* data, int64_t first, int64_t begin, int64_t end, const Space& space) const;
  void multiply_points(const float* filters, int64_t tiles, int64_t begin, int64_t end, const Space& space) const;
  void deliver_tiles(int64_t first, int64_t begin, int64_t end, const Epilogue& epilogue, float* out,
                     const Space& space) const;

  Problem problem_;
  bool apart_;        // every thread has groups of its own; else all work on one
  int64_t group_;     // tiles
  int copies_;        // of the space of a group
};

// The gradient of a convolution's filters.
class FilterGradient {
 public:
  FilterGradient(const Problem& problem, int threads);
  int64_t workspace_size() const;  // floats
  void run(const float* data, const float* out_grad, float* gradient, const FilterLayout& layout,
           float* workspace) const;

 private:
  struct Space;
  Space space(float* workspace, int copy) const;
  void transform_tiles(const float* data, const float* out_grad, int64_t first, int64_t begin, int64_t end,
                       const Space& space) const;
  void multiply_points(int64_t tiles, bool add, int64_t begin, int64_t end, const Space& space) const;
  void deliver(float* gradient, const FilterLayout& layout, float* workspace, int copies) const;

  Problem problem_;
  bool apart_;     // every thread sums groups of its own; else all work on one
  int64_t group_;  // tiles
  int copies_;     // of the space of a group, and of the sums
};

}  // namespace mx::winograd
