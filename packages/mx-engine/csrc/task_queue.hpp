// SPDX-License-Identifier: Apache-2.0
//
// Ready operations of one pool: by descending priority, first come first served within one
// priority.  Priority 0 is a plain list; the others live in a pairing heap (Fredman, Sedgewick,
// Sleator, Tarjan 1986) whose links are in the blocks, so that nothing here allocates.
// Not thread-safe: the pool's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block.hpp"

namespace mx::engine {

class TaskQueue {
 public:
  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }

  // `sequence` grows from push to push; it orders blocks of one priority, across queues too.
  void push(Block* block, uint64_t sequence) noexcept {
    ++size_;
    block->sequence = sequence;
    if (block->priority == 0) {
      block->next = nullptr;
      *(head_ == nullptr ? &head_ : &tail_->next) = block;
      tail_ = block;
      return;
    }
    block->child = block->sibling = nullptr;
    root_ = root_ == nullptr ? block : meld(root_, block);
  }

  // NULL when empty.
  Block* pop() noexcept {
    Block* best = peek();
    if (best == nullptr) return nullptr;
    --size_;
    if (best == root_) {
      root_ = meld_all(best->child);
    } else {
      head_ = best->next;
    }
    return best;
  }

  // The next to pop, or NULL.
  Block* peek() const noexcept {
    return root_ != nullptr && (head_ == nullptr || root_->priority > 0) ? root_ : head_;
  }

  // Whether `a` is to run before `b`.
  static bool before(const Block* a, const Block* b) noexcept {
    return a->priority != b->priority ? a->priority > b->priority : a->sequence < b->sequence;
  }

 private:
  static Block* meld(Block* a, Block* b) noexcept {
    if (before(b, a)) std::swap(a, b);
    b->sibling = a->child;
    a->child = b;
    return a;
  }
  // Two passes: pairs from the left, then the pairs from the right.
  static Block* meld_all(Block* first) noexcept {
    Block* pairs = nullptr;
    while (first != nullptr) {
      Block* a = first;
      Block* b = a->sibling;
      first = b == nullptr ? nullptr : b->sibling;
      Block* pair = b == nullptr ? a : meld(a, b);
      pair->sibling = pairs;
      pairs = pair;
    }
    Block* root = nullptr;
    while (pairs != nullptr) {
      Block* rest = pairs->sibling;
      root = root == nullptr ? pairs : meld(root, pairs);
      pairs = rest;
    }
    return root;
  }

  Block* head_ = nullptr;
  Block* tail_ = nullptr;
  Block* root_ = nullptr;
  size_t size_ = 0;
};

}  // namespace mx::engine
