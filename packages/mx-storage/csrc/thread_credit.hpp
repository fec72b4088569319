// SPDX-License-Identifier: Apache-2.0
//
// What one thread did with the memory of one account.  A thread reserves more than it needs, so that it
// seldom meets the others: what it has left is its credit, spent by allocations and earned by frees.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mx::storage {

class alignas(64) ThreadCredit {
 public:
  static constexpr uint64_t kChunk = uint64_t{1} << 20;  // reserved at a time
  static constexpr uint64_t kMost = 2 * kChunk;          // kept
  static constexpr uint32_t kTags = 256;

  // By the thread that has it; false where the credit is too small, or would be too large.
  bool spend(size_t bytes) noexcept {
    return change([&](State& s) {
      if (s.credit < bytes) return false;
      s.credit -= static_cast<uint32_t>(bytes);
      s.low = std::min(s.low, s.credit);
      return true;
    });
  }
  bool earn(size_t bytes) noexcept {
    return change([&](State& s) {
      if (bytes > kMost - s.credit) return false;
      s.credit += static_cast<uint32_t>(bytes);
      return true;
    });
  }

  // With the account's lock, by any thread: sets the credit to `credit(old)` and restarts the low mark there.
  // Returns what the credit was before.
  template <class Credit>
  uint64_t set(const Credit& credit) noexcept {
    uint64_t before = 0;
    change([&](State& s) {
      before = s.credit;
      s.credit = s.low = static_cast<uint32_t>(credit(before));
      return true;
    });
    return before;
  }
  uint64_t credit() const noexcept { return unpack(state_.load(std::memory_order_acquire)).credit; }
  // The least credit since it was last set.
  uint64_t low() const noexcept { return unpack(state_.load(std::memory_order_acquire)).low; }

  // Bytes of a tag that this thread allocated, less those it freed.  One writer, any readers.
  void hold(uint32_t tag, int64_t bytes) noexcept {
    held_[tag].store(held_[tag].load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
  int64_t held(uint32_t tag) const noexcept { return held_[tag].load(std::memory_order_relaxed); }

  // A thread that ends leaves its credit to the next one.
  bool claim() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void thread_ended() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  struct State {
    uint32_t credit, low;
  };
  static State unpack(uint64_t word) noexcept {
    return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
  }
  template <class Change>
  bool change(const Change& how) noexcept {
    uint64_t seen = state_.load(std::memory_order_relaxed), next = 0;
    do {
      State s = unpack(seen);
      if (!how(s)) return false;
      next = uint64_t{s.low} << 32 | s.credit;
    } while (!state_.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_relaxed));
    return true;
  }

  std::atomic<uint64_t> state_{0};
  std::atomic<bool> taken_{true};
  std::atomic<int64_t> held_[kTags] = {};
};

}  // namespace mx::storage
