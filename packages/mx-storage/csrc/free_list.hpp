// SPDX-License-Identifier: Apache-2.0
//
// Free blocks of one size class; the links lie in the blocks.
#pragma once

#include <cstdint>
#include <utility>

namespace mx::storage {

class FreeList {
 public:
  bool empty() const noexcept { return head_ == nullptr; }
  uint32_t count() const noexcept { return count_; }
  void push(void* block) noexcept {
    *static_cast<void**>(block) = head_;
    head_ = block;
    ++count_;
  }
  void* pop() noexcept {
    void* block = head_;
    head_ = *static_cast<void**>(block);
    --count_;
    return block;
  }
  // Moves up to n blocks to `other`; returns how many.
  uint32_t move_to(FreeList& other, uint32_t n) noexcept {
    uint32_t moved = 0;
    for (; moved < n && !empty(); ++moved) other.push(pop());
    return moved;
  }
  void forget() noexcept { *this = FreeList(); }

 private:
  void* head_ = nullptr;
  uint32_t count_ = 0;
};

}  // namespace mx::storage
