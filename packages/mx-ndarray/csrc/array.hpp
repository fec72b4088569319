// SPDX-License-Identifier: Apache-2.0
//
// Arrays: a row-major, contiguous, typed window on a chunk.
#pragma once

#include <atomic>

#include "chunk.hpp"
#include "mx_core/invoke.h"
#include "shape.hpp"

namespace mx::nd {

// A typed piece of a chunk.
struct Buffer {
  Ref<Chunk> chunk;
  size_t offset = 0;
  size_t bytes = 0;
  int32_t dtype = MX_FLOAT32;
};

}  // namespace mx::nd

// Immutable after construction, except for the shape of a result whose size is not known before it
// is computed (`pending`), which its writer sets once.
struct mx_array final : mx::nd::Counted {
  using Shape = mx::nd::Shape;

  static mx::nd::Ref<mx_array> create(mx_context context, int32_t dtype, Shape shape);
  // A result whose shape the operator decides.
  static mx::nd::Ref<mx_array> unshaped(mx_context context, int32_t dtype);
  static mx::nd::Ref<mx_array> wrap(mx::nd::Ref<mx::nd::Chunk> chunk, size_t offset, int32_t dtype,
                                    Shape shape);
  // `offset` in bytes from this array's start.
  mx::nd::Ref<mx_array> view(size_t offset, int32_t dtype, Shape shape);

  void retain() noexcept { add_reference(); }
  void release() noexcept {
    if (drop_reference()) delete this;
  }

  mx::nd::Chunk& chunk() const noexcept { return *data_.chunk; }
  mx_variable* variable() const noexcept { return data_.chunk->variable(); }
  mx_context context() const noexcept { return data_.chunk->context(); }
  int32_t dtype() const noexcept { return data_.dtype; }
  size_t offset() const noexcept { return data_.offset; }
  bool pending() const noexcept { return pending_.load(std::memory_order_acquire); }
  // Meaningless while pending.
  const Shape& shape() const noexcept { return shape_; }
  size_t bytes() const noexcept { return data_.bytes; }
  int64_t size() const noexcept {
    return static_cast<int64_t>(data_.bytes / mx::item_size(data_.dtype));
  }

  // The address of the first element, allocating if need be; NULL when there is no element.
  void* allocate(bool zero = false) {
    auto* base = static_cast<char*>(data_.chunk->allocate(zero));
    return base == nullptr ? nullptr : base + data_.offset;
  }
  // The same without allocating.
  void* address() const noexcept {
    auto* base = static_cast<char*>(data_.chunk->data());
    return base == nullptr ? nullptr : base + data_.offset;
  }
  // Gives a pending array its shape.
  void set_shape(Shape shape);
  // True when both have bytes in common.
  bool overlaps(const mx_array& other) const noexcept {
    return &chunk() == &other.chunk() && data_.offset < other.data_.offset + other.data_.bytes &&
           other.data_.offset < data_.offset + data_.bytes;
  }

 private:
  mx_array() = default;
  ~mx_array() = default;

  mx::nd::Buffer data_;
  std::atomic<bool> pending_{false};
  Shape shape_;
};

namespace mx::nd {
using Array = ::mx_array;
}
