// SPDX-License-Identifier: Apache-2.0
//
// Working memory of kernels: kept by each thread, or on the stack while it is small.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace mx::vector {

// A block, aligned to 64 bytes, that a thread keeps between runs.
class ThreadMemory {
 public:
  ThreadMemory() = default;
  ~ThreadMemory() { std::free(data_); }
  ThreadMemory(const ThreadMemory&) = delete;
  ThreadMemory& operator=(const ThreadMemory&) = delete;
  char* get(size_t bytes) {
    if (bytes > size_) {
      std::free(data_);
      size_ = 0;
      const size_t rounded = (bytes + 4095) / 4096 * 4096;
      data_ = static_cast<char*>(std::aligned_alloc(64, rounded));
      if (data_ == nullptr) throw std::bad_alloc();
      size_ = rounded;
    }
    return data_;
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

// An array on the stack, unless it is long.
template <class T, size_t N>
class Short {
 public:
  explicit Short(size_t n) : data_(n <= N ? stack_ : new T[n]) {}
  ~Short() {
    if (data_ != stack_) delete[] data_;
  }
  Short(const Short&) = delete;
  Short& operator=(const Short&) = delete;
  T& operator[](size_t i) { return data_[i]; }

 private:
  T stack_[N];
  T* data_;
};

}  // namespace mx::vector
