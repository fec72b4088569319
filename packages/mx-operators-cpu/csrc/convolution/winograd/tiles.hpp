// SPDX-License-Identifier: Apache-2.0
//
// How transformed tensors lie in memory, and how tiles of images become points. `T`: float or double.
#pragma once

#include <algorithm>

#include "convolution/winograd/problem.hpp"

namespace mx::cpu {

constexpr int64_t kGroupApart = 24;        // tiles whose points stay in a core's own cache
constexpr int64_t kGroupBytes = 8 << 20;   // of points that stay in the cache that cores share

inline int64_t ceil_div(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

// At least `n` elements, which are whole cache lines: an odd number of them.
template <class T>
int64_t odd_lines(int64_t n) {
  return ((n / kLanesOf<T>) | 1) * kLanesOf<T>;
}

// The matrices of a group: one row per tile, one matrix per point. Odd numbers of cache lines between rows and
// between points keep them from falling into the same sets of a cache.
template <class T>
struct Points {
  int64_t row, step;

  Points(int64_t tiles, int64_t channels) : row(odd_lines<T>(channels)), step(odd_lines<T>(tiles * row)) {}
  int64_t size() const { return kPoints * step; }
};

// Transformed filters: panels of kPanel output channels; in each a matrix (channels, width) per point.
template <class T>
struct FilterPoints {
  int64_t channels, filters;

  explicit FilterPoints(const WinogradProblem& p) : channels(p.channels), filters(p.filters) {}
  int64_t panels() const { return ceil_div(filters, kPanel<T>); }
  int64_t width(int64_t panel) const { return std::min(kPanel<T>, filters - panel * kPanel<T>); }
  int64_t step(int64_t panel) const { return odd_lines<T>(channels * width(panel)); }
  int64_t offset(int64_t panel) const { return panel * kPoints * step(0); }  // the last alone is narrower
  int64_t size() const { return offset(panels() - 1) + kPoints * step(panels() - 1); }
  int64_t bytes() const { return size() * static_cast<int64_t>(sizeof(T)); }
};

// Whether every thread has groups of its own, next to all transformed filters in its cache.
template <class T>
bool fits_apart(const WinogradProblem& problem, int threads);
// Of the points of one tile's data and results.
template <class T>
int64_t tile_bytes(const WinogradProblem& p) {
  return kPoints * (p.channels + p.filters) * static_cast<int64_t>(sizeof(T));
}

struct Tile {
  int64_t image, y, x;  // of its first result
};

inline Tile tile(const WinogradProblem& p, int64_t index) {
  const int64_t across = p.tiles_across(), down = p.tiles_down();
  return {index / (across * down), index / across % down * kTile, index % across * kTile};
}

// Calls body(i, pixel) for the pixels of a square whose corner is at (y, x); pixel is -1 outside of the image,
// else the offset of its channels.
template <class Body>
void for_pixels(int64_t image, int64_t y, int64_t x, int64_t side, int64_t height, int64_t width, int64_t channels,
                const Body& body) {
  for (int64_t i = 0; i < side; ++i) {
    for (int64_t j = 0; j < side; ++j) {
      const int64_t r = y + i, c = x + j;
      const bool inside = r >= 0 && r < height && c >= 0 && c < width;
      body(i * side + j, inside ? ((image * height + r) * width + c) * channels : -1);
    }
  }
}

// A tensor of images with channels last, of which the first elements may not be in memory.
template <class T>
struct Pixels {
  const T* from;
  int64_t missing = 0;  // elements before `from`

  const T* at(int64_t element) const { return from + (element - missing); }
};

// The points of a tile's patch, at `out`; `step` from one to the next.
template <class T>
void data_points(const WinogradProblem& problem, const Pixels<T>& data, int64_t index, T* out, int64_t step);
// The points of the gradients of a tile's results.
template <class T>
void gradient_points(const WinogradProblem& problem, const Pixels<T>& out_grad, int64_t index, T* out, int64_t step);

}  // namespace mx::cpu
