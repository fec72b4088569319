// SPDX-License-Identifier: Apache-2.0
//
// Tensor signatures and their oneDNN memory descriptors.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "mx_core/abi.h"
#include "mx_core/failure.hpp"
#include "oneapi/dnnl/dnnl.hpp"

namespace mx::onednn {

using DataType = dnnl::memory::data_type;
using Dims = dnnl::memory::dims;
using MemoryDesc = dnnl::memory::desc;

// Signals that oneDNN has no kernel for a signature; the next candidate should be asked.
struct Unsupported {};

inline DataType data_type(int32_t code) {
  switch (code) {
    case MX_FLOAT32: return DataType::f32;
    case MX_BFLOAT16: return DataType::bf16;
    default: throw Unsupported{};
  }
}

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  // Rounds to nearest even; keeps NaN.
  explicit BFloat16(float value) {
    uint32_t u;
    std::memcpy(&u, &value, sizeof u);
    bits = static_cast<uint16_t>(value != value ? (u >> 16) | 64u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    const uint32_t u = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &u, sizeof value);
    return value;
  }
};

// One extent; a rank the kernel was not made for is left to others.
inline int64_t extent(const Dims& dims, size_t axis) {
  if (axis >= dims.size()) throw Unsupported{};
  return dims[axis];
}

// Of the extents [begin, end); likewise.
inline int64_t product(const Dims& dims, size_t begin, size_t end) {
  if (begin > end || end > dims.size()) throw Unsupported{};
  return std::accumulate(dims.begin() + static_cast<int64_t>(begin), dims.begin() + static_cast<int64_t>(end),
                         int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
}

// Shape and element type of one argument, row-major.
struct Spec {
  Dims shape;
  DataType type;

  int64_t size() const { return product(shape, 0, shape.size()); }
  size_t bytes() const { return static_cast<size_t>(size()) * dnnl::memory::data_type_size(type); }
};

struct Signature {
  std::vector<Spec> inputs;
  std::vector<Spec> outputs;
};

inline Dims row_major_strides(const Dims& shape) {
  Dims strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// A row-major tensor of `shape`, seen with its axes in another order: axis i is axis order[i] of `shape`.
inline MemoryDesc permuted(const Dims& shape, DataType type, const std::vector<int>& order) {
  const Dims strides = row_major_strides(shape);
  Dims dims, steps;
  for (int axis : order) {
    dims.push_back(extent(shape, static_cast<size_t>(axis)));
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  return {dims, type, steps};
}

inline MemoryDesc plain(const Dims& shape, DataType type) { return {shape, type, row_major_strides(shape)}; }

// The same dimensions with the layout left to the primitive.
inline MemoryDesc any_layout(const MemoryDesc& desc) {
  return {desc.get_dims(), desc.get_data_type(), dnnl::memory::format_tag::any};
}

// A layout as numbers that are equal for equal layouts; empty where it cannot be told.
inline std::vector<int64_t> format_of(const MemoryDesc& desc) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return {};
  std::vector<int64_t> format = {static_cast<int64_t>(desc.get_data_type())};
  for (const Dims& list : {desc.get_dims(), desc.get_padded_dims(), desc.get_strides(), desc.get_inner_blks(),
                           desc.get_inner_idxs()}) {
    format.push_back(static_cast<int64_t>(list.size()));
    format.insert(format.end(), list.begin(), list.end());
  }
  return format;
}

// A tensor as (outer, axis, inner).
struct AxisView {
  int64_t outer, length, inner;
  AxisView(const Dims& shape, int64_t axis)
      : outer(product(shape, 0, static_cast<size_t>(axis))), length(extent(shape, static_cast<size_t>(axis))),
        inner(product(shape, static_cast<size_t>(axis) + 1, shape.size())) {}
};

}  // namespace mx::onednn
