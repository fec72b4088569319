// SPDX-License-Identifier: Apache-2.0
//
// Vectors that are nearly always short.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace mx::nd {

// Up to N elements without a heap allocation.  T has a default constructor; numbers are not initialised
// by the constructor that takes a length.
template <class T, size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(size_t n) : size_(n) {
    if (n <= N) return;
    heap_.reset(new T[n]);
    capacity_ = n;
  }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;

  void push_back(T value) {
    if (size_ == capacity_) grow();
    data()[size_++] = std::move(value);
  }
  T& operator[](size_t i) noexcept { return data()[i]; }
  const T& operator[](size_t i) const noexcept { return data()[i]; }
  T* data() noexcept { return heap_ ? heap_.get() : local_; }
  const T* data() const noexcept { return heap_ ? heap_.get() : local_; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  void grow() {
    std::unique_ptr<T[]> larger(new T[2 * capacity_]);
    for (size_t i = 0; i < size_; ++i) larger[i] = std::move(data()[i]);
    heap_ = std::move(larger);
    capacity_ *= 2;
  }

  size_t size_ = 0;
  size_t capacity_ = N;
  std::unique_ptr<T[]> heap_;
  T local_[N];
};

}  // namespace mx::nd
