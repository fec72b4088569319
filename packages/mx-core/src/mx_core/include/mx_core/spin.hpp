// SPDX-License-Identifier: Apache-2.0
//
// Waiting awake: for sections of some nanoseconds, and for what comes sooner than a sleeping thread
// would be woken.  Header-only C++17, no Python.
//
// The numbers here are compiled into whoever includes the header: they are not part of an interface
// and may differ between two packages of one process.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace mx {

// Tells the processor that the calling thread spins.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// A lock of one byte.  A holder that was preempted is given the processor: after a short spin the
// thread yields, in the end it sleeps, so that a holder of lower scheduling priority gets on.
class SpinLock {
 public:
  void lock() noexcept {
    if (held_.exchange(true, std::memory_order_acquire)) lock_contended();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64, kYields = 192;
  static constexpr auto kSleep = std::chrono::microseconds(50);

  void lock_contended() noexcept {
    for (int round = 0;; ++round) {
      if (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire)) {
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
  std::atomic<bool> held_{false};
};

// A mutex whose holder is waited for awake as long as going to sleep would take.
class SpinMutex {
 public:
  void lock() {
    for (int i = 0; i < kSpins; ++i) {
      if (mutex_.try_lock()) return;
      spin_pause();
    }
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static constexpr int kSpins = 100;
  std::mutex mutex_;
};

// Looks for something awake, for less time than falling asleep and being woken would take.  Where
// that is in vain, because threads share a processor or work is rare, it is tried ever less often.
// Threads: belongs to one thread and one purpose.
class SpinBudget {
 public:
  // Whether the condition came true.
  template <class Condition>
  bool spin_until(Condition condition) noexcept {
    if (skip_ > 0) {
      --skip_;
      return condition();
    }
    const auto end = std::chrono::steady_clock::now() + kTime;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        if (condition()) {
          failures_ = 0;
          return true;
        }
        spin_pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    failures_ = failures_ < kMostSkipped ? 2 * failures_ + 1 : kMostSkipped;
    skip_ = failures_;
    return false;
  }

 private:
  static constexpr auto kTime = std::chrono::microseconds(8);
  static constexpr int kPausesPerLook = 16;
  static constexpr int kMostSkipped = 31;
  int skip_ = 0;
  int failures_ = 0;
};

}  // namespace mx
