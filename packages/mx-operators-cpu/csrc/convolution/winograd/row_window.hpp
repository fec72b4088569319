// SPDX-License-Identifier: Apache-2.0
//
// Consecutive rows of a tensor's images, copied with channels last as they are asked for.
#pragma once

#include <algorithm>

#include "convolution/winograd/channel_order.hpp"
#include "convolution/winograd/tiles.hpp"

namespace mx::cpu {

// Rows count through all images.  Without a capacity, the tensor has channels last, or no rows, and is not copied.
// Threads: one at a time.
template <class T>
class RowWindow {
 public:
  RowWindow(const T* given, const Images<T>& images, int64_t width, int64_t capacity, T* room)
      : given_(given), images_(images), width_(width), capacity_(capacity), room_(room) {}

  // The tensor with channels last, of which the rows [begin, end) are there until the next call; at most `capacity`.
  // What is copied ahead ends before `limit`.  Copies on the calling thread's team.
  Pixels<T> reach(int64_t begin, int64_t end, int64_t limit) {
    if (capacity_ == 0) return {given_};
    if (begin < begin_ || end > end_) {
      begin_ = begin;
      end_ = std::max(end, std::min(limit, begin + capacity_));
      images_.to_channels_last(given_, begin_ * width_, end_ * width_, room_);
    }
    return {room_, begin_ * width_ * images_.channels};
  }

 private:
  const T* given_;
  Images<T> images_;
  int64_t width_, capacity_, begin_ = 0, end_ = 0;
  T* room_;
};

}  // namespace mx::cpu
