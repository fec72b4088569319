// SPDX-License-Identifier: Apache-2.0
//
// The locks of the process, for fork: a child must not inherit one that a thread it does not have was holding.
#pragma once

#include <mutex>

#include "mx_core/spin.hpp"

namespace mx::storage {

// What holds a lock.  A fork takes those that were enlisted first first.
class Forked {
 public:
  virtual void lock_for_fork() noexcept = 0;
  virtual void unlock_after_fork() noexcept = 0;

 protected:
  ~Forked() = default;
};

// Guards every small pool's list of caches, and the list of locks.  Never destroyed.
std::mutex& registry_mutex() noexcept;

void enlist(Forked* holder);
void delist(Forked* holder) noexcept;

// A lock that no fork finds held.
template <class Lock>
class ForkSafe final : private Forked {
 public:
  ForkSafe() { enlist(this); }
  ForkSafe(const ForkSafe&) = delete;
  ForkSafe& operator=(const ForkSafe&) = delete;
  ~ForkSafe() { delist(this); }
  void lock() { lock_.lock(); }
  void unlock() { lock_.unlock(); }

 private:
  void lock_for_fork() noexcept override { lock_.lock(); }
  void unlock_after_fork() noexcept override { lock_.unlock(); }
  Lock lock_;
};

using Mutex = ForkSafe<SpinMutex>;
using Guard = std::lock_guard<Mutex>;

}  // namespace mx::storage
