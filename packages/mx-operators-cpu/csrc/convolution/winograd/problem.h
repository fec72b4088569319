// SPDX-License-Identifier: Apache-2.0
//
// Convolutions with three by three filters and steps of one, and whether minimal filtering makes them faster. Images
// are (images, height, width, channels); numbers of channels are multiples of kLanes.
#pragma once

#include <cstdint>

#include "convolution/winograd/transforms.h"

namespace mx::filtering {

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

}  // namespace mx::filtering
