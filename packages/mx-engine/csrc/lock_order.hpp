// SPDX-License-Identifier: Apache-2.0
//
// The variables of one operation in the order of their addresses: all of them are locked while
// the operation takes its places, so no other push can come between two of its variables, and the
// common order rules out a deadlock.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "variable.hpp"

namespace mx::engine {

class LockOrder {
 public:
  // Throws std::bad_alloc.
  LockOrder(Variable* const* reads, uint32_t n_reads, Variable* const* writes, uint32_t n_writes)
      : size_(n_reads + n_writes) {
    if (size_ > kInline) {
      spill_.resize(size_);
      sorted_ = spill_.data();
    }
    const auto in_order = [](Variable* const* list, uint32_t n) {
      return std::is_sorted(list, list + n, std::less<>());
    };
    if (size_ > kInline && in_order(reads, n_reads) && in_order(writes, n_writes)) {
      std::merge(reads, reads + n_reads, writes, writes + n_writes, sorted_, std::less<>());
      return;
    }
    std::copy_n(reads, n_reads, sorted_);
    std::copy_n(writes, n_writes, sorted_ + n_reads);
    if (size_ <= kInline) {
      for (uint32_t i = 1; i < size_; ++i) {
        Variable* moving = sorted_[i];
        uint32_t at = i;
        for (; at > 0 && std::less<>()(moving, sorted_[at - 1]); --at) sorted_[at] = sorted_[at - 1];
        sorted_[at] = moving;
      }
    } else {
      std::sort(sorted_, sorted_ + size_, std::less<>());
    }
  }
  LockOrder(const LockOrder&) = delete;
  LockOrder& operator=(const LockOrder&) = delete;

  // A variable that is listed more than once, or NULL.
  Variable* duplicate() const noexcept {
    Variable** end = sorted_ + size_;
    Variable** at = std::adjacent_find(sorted_, end);
    return at == end ? nullptr : *at;
  }
  // False, with nothing locked, when one of them has become a part of a whole.
  bool lock() const noexcept {
    for (uint32_t i = 0; i < size_; ++i) {
      sorted_[i]->lock.lock();
      if (sorted_[i]->whole.load(std::memory_order_relaxed) == nullptr) continue;
      for (uint32_t locked = i + 1; locked > 0; --locked) sorted_[locked - 1]->lock.unlock();
      return false;
    }
    return true;
  }
  void unlock() const noexcept {
    for (uint32_t i = size_; i > 0; --i) sorted_[i - 1]->lock.unlock();
  }

 private:
  static constexpr uint32_t kInline = 16;
  const uint32_t size_;
  Variable* inline_[kInline];
  Variable** sorted_ = inline_;
  std::vector<Variable*> spill_;
};

}  // namespace mx::engine
