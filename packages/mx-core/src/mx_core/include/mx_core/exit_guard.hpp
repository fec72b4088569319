// SPDX-License-Identifier: Apache-2.0
//
// Threads that are inside native code when the process ends.  exit() destroys the static objects of every
// library, also of one that such a thread is inside of: a kernel library's caches, a table of primitives.
// Header-only C++17 with glibc's on_exit, no Python.
#pragma once

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace mx {

// From now on exit() waits until `quiet()`, before anything is destroyed that was made by now.  Where that
// takes longer than kLongestHold the process ends at once, with its status, and destroys nothing.
// `quiet` never blocks.  Threads: any.
inline void hold_exit_until(bool (*quiet)()) noexcept {
  static constexpr auto kLongestHold = std::chrono::seconds(2);
  ::on_exit(
      [](int status, void* argument) {
        const auto quiet_now = reinterpret_cast<bool (*)()>(argument);
        const auto end = std::chrono::steady_clock::now() + kLongestHold;
        while (!quiet_now()) {
          if (std::chrono::steady_clock::now() >= end) ::_exit(status);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      },
      reinterpret_cast<void*>(quiet));
}

// For the lifetime of the object the calling thread is inside native code whose static objects the end of
// the process must not destroy.  Made inside a GilRelease, so that it has ended when the thread asks for the
// lock again and may not get it.  Counts the threads of the including package.
class ExitHold {
 public:
  ExitHold() noexcept { threads().count.fetch_add(1, std::memory_order_relaxed); }
  ExitHold(const ExitHold&) = delete;
  ExitHold& operator=(const ExitHold&) = delete;
  ~ExitHold() { threads().count.fetch_sub(1, std::memory_order_release); }

 private:
  struct Threads {
    Threads() noexcept {
      hold_exit_until([] { return threads().count.load(std::memory_order_acquire) <= 0; });
      ::pthread_atfork(nullptr, nullptr, [] { threads().count.store(0, std::memory_order_relaxed); });
    }
    std::atomic<int> count{0};
  };
  static Threads& threads() noexcept {
    static auto* made = new Threads;  // leaked: read while the process ends
    return *made;
  }
};

}  // namespace mx
