// SPDX-License-Identifier: Apache-2.0
//
// The operations the calling thread is inside of, innermost first.
#pragma once

#include "block.hpp"

namespace mx::engine {

class Frame {
 public:
  // `scheduler`: that runs it, by which operations of several engines are told apart.
  Frame(Block* block, const void* scheduler) noexcept : block_(block), scheduler_(scheduler), outer_(top_) {
    top_ = this;
  }
  ~Frame() { top_ = outer_; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  static const Frame* top() noexcept { return top_; }
  const Frame* outer() const noexcept { return outer_; }
  const Block& block() const noexcept { return *block_; }

  // Forks from the first process down to this one.
  static uint32_t forks() noexcept { return forks_; }
  // In the child of a fork: the operations that this thread is inside of go on here, all others do not.
  static void begin_child() noexcept {
    ++forks_;
    for (Frame* frame = top_; frame != nullptr; frame = frame->outer_) frame->block_->forks = forks_;
  }

  static bool any() noexcept { return top_ != nullptr; }
  static uint32_t depth() noexcept {
    uint32_t n = 0;
    for (const Frame* frame = top_; frame != nullptr; frame = frame->outer_) ++n;
    return n;
  }
  // Those of one engine.
  static uint32_t depth(const void* scheduler) noexcept {
    uint32_t n = 0;
    for (const Frame* frame = top_; frame != nullptr; frame = frame->outer_) n += frame->scheduler_ == scheduler ? 1 : 0;
    return n;
  }
  // The name of the running operation that holds the variable, or NULL.
  static const char* holder(const mx_variable* variable) noexcept {
    for (const Frame* frame = top_; frame != nullptr; frame = frame->outer_) {
      for (uint32_t i = 0; i < frame->block_->n_entries; ++i) {
        if (frame->block_->entries[i].variable != variable) continue;
        return frame->block_->name == nullptr ? "unnamed" : frame->block_->name;
      }
    }
    return nullptr;
  }
  // Whether the innermost running operation that holds the variable reads it.
  static bool reads(const mx_variable* variable) noexcept {
    for (const Frame* frame = top_; frame != nullptr; frame = frame->outer_)
      for (uint32_t i = 0; i < frame->block_->n_entries; ++i)
        if (frame->block_->entries[i].variable == variable) return !frame->block_->entries[i].write;
    return false;
  }

 private:
  Block* const block_;
  const void* const scheduler_;
  Frame* const outer_;
  static thread_local Frame* top_;
  static inline uint32_t forks_ = 0;  // written where there is one thread
};

}  // namespace mx::engine
