// SPDX-License-Identifier: Apache-2.0
//
// A sliding window over the spatial axes, as convolutions and poolings have it.
#pragma once

#include "common/shape.hpp"

namespace mx::cpu {

// A sliding window over the spatial axes, one entry per axis.
struct Window {
  Dims kernel, stride, dilate, pad;
};

// Throws Unsupported unless there is one kernel, stride and dilation above 0 and one pad per axis.
inline void require_whole(const Window& w) {
  const size_t axes = w.kernel.size();
  if (w.stride.size() != axes || w.dilate.size() != axes || w.pad.size() != axes) throw Unsupported{};
  for (size_t i = 0; i < axes; ++i)
    if (w.kernel[i] < 1 || w.stride[i] < 1 || w.dilate[i] < 1 || w.pad[i] < 0) throw Unsupported{};
}

}  // namespace mx::cpu
