// SPDX-License-Identifier: Apache-2.0
//
// Layouts of scratch memory, and arrays and lists that lie in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "mx_core/plan.hpp"

namespace mx::cpu {

// Parts of one block of scratch memory, in bytes.
class Sections {
 public:
  template <class T>
  size_t add(int64_t n) {
    return add_bytes(static_cast<size_t>(std::max<int64_t>(n, 0)) * sizeof(T));
  }
  size_t add_bytes(size_t bytes) {
    const size_t offset = total_;
    total_ += aligned(bytes);
    return offset;
  }
  size_t bytes() const { return total_; }

 private:
  size_t total_ = 0;
};

// Numbers in memory that another has.
template <class T>
class Span {
 public:
  Span() = default;
  Span(T* data, size_t size) : data_(data), size_(size) {}
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_[i]; }
  T& front() const { return data_[0]; }
  T& back() const { return data_[size_ - 1]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// A list in memory for a known number of elements.
template <class T>
class FixedList {
 public:
  explicit FixedList(T* memory) : data_(memory) {}
  void push_back(const T& value) { data_[size_++] = value; }
  void shrink(size_t size) { size_ = std::min(size_, size); }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_;
  size_t size_ = 0;
};

// Bytes of an arena for pieces of these sizes.
inline size_t arena_bytes(std::initializer_list<size_t> pieces) {
  size_t bytes = 0;
  for (const size_t piece : pieces) bytes += aligned(piece);
  return bytes;
}

// Hands out scratch memory piece by piece.
class Arena {
 public:
  Arena(void* memory, size_t bytes) : next_(static_cast<char*>(memory)), left_(bytes) {}

  // Throws Error where the plan declared less: a mistake of the kernel, found before it writes.
  template <class T>
  Span<T> take(size_t n) {
    const size_t bytes = aligned(n * sizeof(T));
    if (bytes > left_) throw Error(MX_ERROR, "a kernel takes more scratch memory than it declared");
    auto* piece = reinterpret_cast<T*>(next_);
    next_ += bytes, left_ -= bytes;
    return {piece, n};
  }
  template <class T>
  Span<T> filled(size_t n, T value) {
    const Span<T> piece = take<T>(n);
    std::fill_n(piece.data(), n, value);
    return piece;
  }
  template <class T>
  FixedList<T> list(size_t most) {
    return FixedList<T>(take<T>(most).data());
  }

 private:
  char* next_;
  size_t left_;
};

}  // namespace mx::cpu
