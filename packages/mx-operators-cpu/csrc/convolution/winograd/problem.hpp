// SPDX-License-Identifier: Apache-2.0
//
// Convolutions with three by three filters and steps of one, and whether Winograd's algorithm makes them faster. Images
// are (images, height, width, channels), of float or double; numbers of channels are multiples of kLanesOf that type.
#pragma once

#include <cstdint>

#include "convolution/winograd/transforms.hpp"

namespace mx::cpu {

constexpr int64_t kMostChannels = 4096;  // of data or result; a border of zeros is as wide

struct WinogradProblem {
  int64_t images, height, width, channels;
  int64_t out_height, out_width, filters;
  int64_t pad_top, pad_left;

  int64_t tiles_down() const { return (out_height + kTile - 1) / kTile; }
  int64_t tiles_across() const { return (out_width + kTile - 1) / kTile; }
  int64_t tiles() const { return images * tiles_down() * tiles_across(); }
  // The convolution that makes the gradient of this one's data from that of its result.
  WinogradProblem of_data_gradient() const {
    return {images, out_height, out_width, filters, height, width, channels,
            kFilter - 1 - pad_top, kFilter - 1 - pad_left};
  }
};

// Whether the processor and the numbers of channels allow it, in `T`: float or double.
template <class T>
bool possible(const WinogradProblem& problem);
// Whether it is expected to be faster than a direct convolution; `ready`: the filters are transformed already.
bool pays(const WinogradProblem& problem, bool ready);
// Whether the gradient of the filters is.
bool gradient_pays(const WinogradProblem& problem);

}  // namespace mx::cpu
