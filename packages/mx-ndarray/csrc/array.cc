// SPDX-License-Identifier: Apache-2.0
#include "array.hpp"

using mx::Error;
using mx::nd::Chunk;
using mx::nd::Ref;

Ref<mx_array> mx_array::wrap(Ref<Chunk> chunk, size_t offset, int32_t dtype, Shape shape) {
  const size_t bytes = mx::nd::byte_size(shape, dtype);
  if (offset > chunk->bytes() || bytes > chunk->bytes() - offset) {
    throw Error(MX_ERROR_SHAPE, "[NDArray] a view of shape " + shape.text() + " (" +
                                    std::to_string(bytes) + " bytes) at byte " +
                                    std::to_string(offset) + " leaves its memory of " +
                                    std::to_string(chunk->bytes()) + " bytes");
  }
  Ref<mx_array> array = Ref<mx_array>::adopt(new mx_array);
  array->data_.chunk = std::move(chunk);
  array->data_.offset = offset;
  array->data_.bytes = bytes;
  array->data_.dtype = dtype;
  array->shape_ = std::move(shape);
  return array;
}

Ref<mx_array> mx_array::create(mx_context context, int32_t dtype, Shape shape) {
  const size_t bytes = mx::nd::byte_size(shape, dtype);
  return wrap(Chunk::lazy(context, bytes), 0, dtype, std::move(shape));
}

Ref<mx_array> mx_array::unshaped(mx_context context, int32_t dtype) {
  const int64_t nothing = 0;
  Ref<mx_array> array = wrap(Chunk::lazy(context, 0), 0, dtype, Shape(1, &nothing));
  array->pending_.store(true, std::memory_order_release);
  return array;
}

Ref<mx_array> mx_array::view(size_t offset, int32_t dtype, Shape shape) {
  size_t start = 0;
  if (__builtin_add_overflow(data_.offset, offset, &start)) start = SIZE_MAX;  // which no memory reaches
  return wrap(data_.chunk, start, dtype, std::move(shape));
}

void mx_array::set_shape(Shape shape) {
  const size_t bytes = mx::nd::byte_size(shape, data_.dtype);
  data_.chunk->resize(bytes);
  data_.bytes = bytes;
  shape_ = std::move(shape);
  pending_.store(false, std::memory_order_release);
}
