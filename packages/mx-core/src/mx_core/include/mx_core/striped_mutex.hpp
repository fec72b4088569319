// SPDX-License-Identifier: Apache-2.0
//
// Mutexes of many small objects, for forks.  A mutex of its own would be found locked for ever in a child that was
// forked while another thread held it, and a list of such objects for the fork would cost every object more than the
// mutex does.  Header-only C++17, no Python.
#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace mx {

// The mutexes that the objects of a tag share.  A fork holds all of them, so that a child finds none taken and nothing
// that they guard half changed.  Whoever holds one therefore takes no other lock but those of the allocator.
// Threads: any.  One set per library.
template <class Tag>
class StripedMutex {
 public:
  // The one of an object.
  static std::mutex& of(const void* object) noexcept {
    static_cast<void>(kRegistered);
    // Objects are aligned, so the lowest bits of their addresses tell nothing.
    return stripes_[reinterpret_cast<uintptr_t>(object) / 64 % kStripes].mutex;
  }

 private:
  static constexpr size_t kStripes = 16;
  struct alignas(64) Stripe {
    std::mutex mutex;
  };

  static void lock_all() {
    for (Stripe& stripe : stripes_) stripe.mutex.lock();
  }
  static void unlock_all() {
    for (Stripe& stripe : stripes_) stripe.mutex.unlock();
  }

  // Made before any code runs, and never destroyed: threads may outlive static destruction.
  static inline std::array<Stripe, kStripes> stripes_;
  // When the library is loaded: the first use would do it under a guard that a fork may find held.
  static inline const int kRegistered = ::pthread_atfork(lock_all, unlock_all, unlock_all);
};

}  // namespace mx
