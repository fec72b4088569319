// SPDX-License-Identifier: Apache-2.0
//
// Images of float or double, copied from one order of their channels to the other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/parallel.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {

// A tensor of images.  Threads: copies run on the calling thread's team.
template <class T>
struct Images {
  int64_t images, channels, area;

  int64_t positions() const { return images * area; }
  int64_t size() const { return positions() * channels; }

  void to_channels_last(const T* from, T* to) const { to_channels_last(from, 0, positions(), to); }
  // Of the positions [begin, end), which count through all images; `to`: where the first of them goes.
  void to_channels_last(const T* from, int64_t begin, int64_t end, T* to) const {
    for_blocks(begin, end, [=, this](int64_t image, int64_t first, int64_t n) {
      transposed<T>()(to + (image * area + first - begin) * channels, channels, from + image * area * channels + first,
                   area, n, channels);
    });
  }
  void to_channels_first(const T* from, T* to) const {
    for_blocks(0, positions(), [=, this](int64_t image, int64_t first, int64_t n) {
      const int64_t offset = image * area * channels;
      transposed<T>()(to + offset + first, area, from + offset + first * channels, channels, channels, n);
    });
  }

 private:
  static constexpr int64_t kPositions = 64;  // that are transposed at once
  static constexpr int64_t kGrain = 4;       // of those, for a thread

  // Calls body(image, first, n) for n positions of an image from `first` on.
  template <class Body>
  void for_blocks(int64_t begin, int64_t end, const Body& body) const {
    if (begin >= end) return;
    const int64_t blocks = (area + kPositions - 1) / kPositions, first_image = begin / area;
    parallel_for(((end - 1) / area + 1 - first_image) * blocks, kGrain, [&](int64_t first_block, int64_t last_block) {
      for (int64_t i = first_block; i < last_block; ++i) {
        const int64_t image = first_image + i / blocks, block = i % blocks * kPositions;
        const int64_t first = std::max(block, begin - image * area);
        const int64_t last = std::min({block + kPositions, area, end - image * area});
        if (first < last) body(image, first, last - first);
      }
    });
  }
};

}  // namespace mx::cpu
