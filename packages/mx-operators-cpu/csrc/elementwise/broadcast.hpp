// SPDX-License-Identifier: Apache-2.0
//
// How operands lie under the output they broadcast to, with as few axes as possible.
#pragma once

#include <vector>

#include "common/plan.hpp"

namespace mx::cpu {

// Axes of size 1 are dropped and neighbours merged where every operand allows it, so that the
// innermost stride of an operand is 1 or 0 (broadcast), in elements.
struct Broadcast {
  Shape sizes;                 // outermost first; empty for one element
  std::vector<Shape> strides;  // [operand][axis]
};

// Throws mx::Error(MX_ERROR_SHAPE) when an operand does not broadcast to `output`.
Broadcast collapse(const Shape& output, const std::vector<Spec>& operands);

// n copies of one element.
void fill(char* out, const char* value, int64_t n, size_t item_size);

// Elements [start, start + n) of the broadcast operand, as one array.
void expand(char* out, const char* operand, const Shape& sizes, const Shape& strides, int64_t start,
            int64_t n, size_t item_size);

}  // namespace mx::cpu
