// SPDX-License-Identifier: Apache-2.0
//
// A sliding window over the spatial axes, as convolutions and poolings have it.
#pragma once

#include "onednn/descriptor.h"

namespace mx::onednn {

// A sliding window over the spatial axes, one entry per axis.
struct Window {
  Dims kernel, stride, dilate, pad;
};

}  // namespace mx::onednn
