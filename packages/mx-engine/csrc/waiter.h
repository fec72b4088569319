// SPDX-License-Identifier: Apache-2.0
//
// One thread that waits for one thing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace mx::engine {

// The moment `timeout_ns` from now; far away when it is negative.
inline std::chrono::steady_clock::time_point deadline(int64_t timeout_ns) noexcept {
  using std::chrono::steady_clock;
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1000000000;
  const int64_t ns = timeout_ns < 0 || timeout_ns > kYear ? kYear : timeout_ns;
  return steady_clock::now() + std::chrono::nanoseconds(ns);
}

// Looks for something again and again, ever less often; whether it came about in time.
template <class Condition>
bool poll_until(std::chrono::steady_clock::time_point when, Condition condition) {
  for (int round = 0; !condition(); ++round) {
    if (round < 50) {
      std::this_thread::yield();
    } else {
      if (std::chrono::steady_clock::now() >= when) return condition();
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
    signalled_ = true;
    condition_.notify_one();
  }
  void wait() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    condition_.wait(lock, [this] { return signalled_; });
    signalled_ = false;
  }
  // Whether the signal came in time.
  bool wait_until(std::chrono::steady_clock::time_point when) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!condition_.wait_until(lock, when, [this] { return signalled_; })) return false;
    signalled_ = false;
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool signalled_ = false;  // guarded by mutex_
};

}  // namespace mx::engine
