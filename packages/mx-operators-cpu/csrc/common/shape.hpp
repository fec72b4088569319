// SPDX-License-Identifier: Apache-2.0
//
// Extents of tensors and what follows from them.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>

#include "common/plan.hpp"

namespace mx::cpu {

using Dims = Shape;

// One extent; a rank the kernel was not made for is left to others.
inline int64_t extent(const Dims& dims, size_t axis) {
  if (axis >= dims.size()) throw Unsupported{};
  return dims[axis];
}

// Of the extents [begin, end); likewise.
inline int64_t product(const Dims& dims, size_t begin, size_t end) {
  if (begin > end || end > dims.size()) throw Unsupported{};
  return std::accumulate(dims.begin() + static_cast<int64_t>(begin), dims.begin() + static_cast<int64_t>(end),
                         int64_t{1}, std::multiplies<>());
}

inline Dims row_major_strides(const Dims& shape) {
  Dims strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

inline int64_t product(const Shape& shape) { return product(shape, 0, shape.size()); }

// A tensor as (outer, axis, inner).
struct AxisView {
  int64_t outer, length, inner;
  AxisView(const Dims& shape, int64_t axis)
      : outer(product(shape, 0, static_cast<size_t>(axis))), length(extent(shape, static_cast<size_t>(axis))),
        inner(product(shape, static_cast<size_t>(axis) + 1, shape.size())) {}
};

}  // namespace mx::cpu
