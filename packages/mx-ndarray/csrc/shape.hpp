// SPDX-License-Identifier: Apache-2.0
//
// Shapes with inline storage, and the one place where sizes are multiplied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "mx_core/failure.hpp"
#include "mx_core/types.hpp"

namespace mx::nd {

class Shape {
 public:
  Shape() noexcept = default;
  Shape(int32_t ndim, const int64_t* dims) : ndim_(ndim) {
    if (ndim < 0 || ndim > MX_MAX_NDIM) {
      throw Error(MX_ERROR_SHAPE, "[NDArray] expected at most " + std::to_string(MX_MAX_NDIM) +
                                      " dimensions, got " + std::to_string(ndim));
    }
    if (ndim > kInline) heap_ = new int64_t[static_cast<size_t>(ndim)];
    std::copy(dims, dims + ndim, data());
  }
  Shape(const Shape& other) : Shape(other.ndim_, other.data()) {}
  Shape(Shape&& other) noexcept { swap(other); }
  Shape& operator=(Shape other) noexcept {
    swap(other);
    return *this;
  }
  ~Shape() { delete[] heap_; }

  int32_t ndim() const noexcept { return ndim_; }
  const int64_t* data() const noexcept { return heap_ != nullptr ? heap_ : inline_; }
  int64_t* data() noexcept { return heap_ != nullptr ? heap_ : inline_; }
  int64_t operator[](int32_t i) const noexcept { return data()[i]; }
  bool operator==(const Shape& other) const noexcept {
    return ndim_ == other.ndim_ && std::equal(data(), data() + ndim_, other.data());
  }
  bool operator!=(const Shape& other) const noexcept { return !(*this == other); }

  // As Python writes it: "(2, 3)".
  std::string text() const {
    std::string out = "(";
    for (int32_t i = 0; i < ndim_; ++i) out += (i != 0 ? ", " : "") + std::to_string(data()[i]);
    return out + (ndim_ == 1 ? ",)" : ")");
  }

 private:
  static constexpr int32_t kInline = 5;
  void swap(Shape& other) noexcept {
    std::swap(ndim_, other.ndim_);
    std::swap(heap_, other.heap_);
    std::swap(inline_, other.inline_);
  }
  int32_t ndim_ = 0;
  int64_t* heap_ = nullptr;
  int64_t inline_[kInline] = {};
};

// product(shape) * item size; refuses negative dimensions, unknown types and overflow.
inline size_t byte_size(const Shape& shape, int32_t dtype) {
  const size_t item = item_size(dtype);
  if (item == 0) {
    throw Error(MX_ERROR_DTYPE, "[NDArray] unknown element type code " + std::to_string(dtype));
  }
  int64_t bytes = static_cast<int64_t>(item);
  bool empty = false;
  bool overflow = false;
  for (int32_t i = 0; i < shape.ndim(); ++i) {
    if (shape[i] < 0) {
      throw Error(MX_ERROR_SHAPE, "[NDArray] shape: expected sizes >= 0, got " + shape.text());
    }
    empty = empty || shape[i] == 0;
    overflow = __builtin_mul_overflow(bytes, shape[i], &bytes) || overflow;
  }
  if (empty) return 0;
  if (overflow) {
    throw Error(MX_ERROR_SHAPE, "[NDArray] shape " + shape.text() + " has more than 2^63 bytes");
  }
  return static_cast<size_t>(bytes);
}

}  // namespace mx::nd
