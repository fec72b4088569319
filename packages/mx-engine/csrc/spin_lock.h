// SPDX-License-Identifier: Apache-2.0
//
// A one-byte lock for critical sections of a few instructions.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace mx::engine {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class SpinLock {
 public:
  void lock() noexcept {
    if (held_.exchange(true, std::memory_order_acquire)) lock_contended();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  // The holder may have been preempted: after a short spin the processor is given away, and in
  // the end the thread sleeps, so that a holder of lower scheduling priority gets on.
  void lock_contended() noexcept {
    for (int round = 0;; ++round) {
      if (!held_.load(std::memory_order_relaxed) &&
          !held_.exchange(true, std::memory_order_acquire)) {
        return;
      }
      if (round < 64) {
        pause();
      } else if (round < 256) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }
  std::atomic<bool> held_{false};
};

}  // namespace mx::engine
