// SPDX-License-Identifier: Apache-2.0
//
// A lock that a child of a fork finds free, whichever thread of the parent held it.
//
// It says which process its holder belongs to; one of another process does not exist here.  So it costs a fork
// nothing, however many there are.  What it guards must be sound, or known to be lost, between any two steps of a
// holder.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "mx_core/spin.hpp"

namespace mx::engine {

class ForkLock {
 public:
  void lock() noexcept {
    uint16_t holder = nobody;
    if (!holder_.compare_exchange_strong(holder, process_, std::memory_order_acquire, std::memory_order_relaxed)) {
      lock_contended();
    }
  }
  void unlock() noexcept { holder_.store(nobody, std::memory_order_release); }

  // In the child of a fork, while it has one thread, which holds no such lock.
  static void begin_child() noexcept {
    if (++process_ == nobody) ++process_;
  }

 private:
  static constexpr uint16_t nobody = 0;
  static constexpr int kSpins = 64, kYields = 192;
  static constexpr auto kSleep = std::chrono::microseconds(50);

  // As SpinLock does.
  void lock_contended() noexcept {
    for (int round = 0;; ++round) {
      uint16_t holder = holder_.load(std::memory_order_relaxed);
      if (holder != process_ &&
          holder_.compare_exchange_strong(holder, process_, std::memory_order_acquire, std::memory_order_relaxed)) {
        return;
      }
      if (round < kSpins) {
        spin_pause();
      } else if (round < kSpins + kYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kSleep);
      }
    }
  }

  static inline uint16_t process_ = 1;  // forks from the first process down to this one, 0 left out
  std::atomic<uint16_t> holder_{nobody};
};

}  // namespace mx::engine
