// SPDX-License-Identifier: Apache-2.0
//
// Arrays whose length is known when they are made and nearly always small.
#pragma once

#include <cstddef>

namespace mx::nd {

// `n` values, up to N of them without a heap allocation.  Numbers are not initialised.
template <class T, size_t N>
class Few {
 public:
  explicit Few(size_t n) : data_(n <= N ? local_ : new T[n]) {}
  Few(const Few&) = delete;
  Few& operator=(const Few&) = delete;
  ~Few() {
    if (data_ != local_) delete[] data_;
  }
  T& operator[](size_t i) noexcept { return data_[i]; }
  T* data() noexcept { return data_; }

 private:
  T local_[N];
  T* data_;
};

}  // namespace mx::nd
