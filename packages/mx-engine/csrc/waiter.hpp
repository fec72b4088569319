// SPDX-License-Identifier: Apache-2.0
//
// One thread that waits for one thing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "mx_core/spin.hpp"

namespace mx::engine {

// The moment `timeout_ns` from now; far away when it is negative.
inline std::chrono::steady_clock::time_point deadline(int64_t timeout_ns) noexcept {
  using std::chrono::steady_clock;
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1000000000;
  const int64_t ns = timeout_ns < 0 || timeout_ns > kYear ? kYear : timeout_ns;
  return steady_clock::now() + std::chrono::nanoseconds(ns);
}

// Looks for something again and again, ever less often; whether it came about in time.  On a busy machine each `yield`
// may take some ten milliseconds.
template <class Condition>
bool poll_until(std::chrono::steady_clock::time_point when, Condition condition) {
  for (int round = 0; !condition(); ++round) {
    if (std::chrono::steady_clock::now() >= when) return condition();
    if (round < 50) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return true;
}

class Waiter {
 public:
  // The waiting thread may destroy the waiter as soon as it has seen the signal, so the signal is
  // given with the mutex held.
  void signal() noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    signalled_.store(true, std::memory_order_release);
    if (sleeps_) condition_.notify_one();
  }
  void wait() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    sleeps_ = true;
    condition_.wait(lock, [this] { return signalled(); });
    awake();
  }
  // Whether the signal came in time.
  bool wait_until(std::chrono::steady_clock::time_point when) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    sleeps_ = true;
    if (!condition_.wait_until(lock, when, [this] { return signalled(); })) {
      sleeps_ = false;
      return false;
    }
    awake();
    return true;
  }
  // The signal may come before this thread slept: looks for it first.
  bool spin_and_wait_until(std::chrono::steady_clock::time_point when) noexcept {
    thread_local SpinBudget spin;
    spin.spin_until([this] { return signalled(); });
    return wait_until(when);
  }

 private:
  bool signalled() const noexcept { return signalled_.load(std::memory_order_acquire); }
  void awake() noexcept {
    sleeps_ = false;
    signalled_.store(false, std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<bool> signalled_{false};  // written with mutex_ held
  bool sleeps_ = false;                 // guarded by mutex_
};

}  // namespace mx::engine
