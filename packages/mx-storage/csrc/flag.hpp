// SPDX-License-Identifier: Apache-2.0
//
// A lock that its own thread takes without contention.
#pragma once

#include <atomic>
#include <thread>

namespace mx::storage {

class Flag {
 public:
  void lock() noexcept {
    while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace mx::storage
