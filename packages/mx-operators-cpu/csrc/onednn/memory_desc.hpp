// SPDX-License-Identifier: Apache-2.0
//
// Tensors as oneDNN's memory descriptors.
#pragma once

#include <vector>

#include "common/plan.hpp"
#include "common/shape.hpp"
#include "oneapi/dnnl/dnnl.hpp"

namespace mx::cpu {

using DataType = dnnl::memory::data_type;
using MemoryDesc = dnnl::memory::desc;

inline DataType data_type(int32_t dtype) {
  switch (dtype) {
    case MX_FLOAT32: return DataType::f32;
    case MX_BFLOAT16: return DataType::bf16;
    default: throw Unsupported{};
  }
}
inline DataType data_type(const Spec& spec) { return data_type(spec.dtype); }

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

}  // namespace mx::cpu
