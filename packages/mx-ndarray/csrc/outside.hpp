// SPDX-License-Identifier: Apache-2.0
//
// Leaving the interpreter's lock around calls to the engine that may take long.
#pragma once

#include <atomic>

namespace mx::nd {

// How to leave and enter; the bindings install one.  `leave` returns NULL when there is nothing to
// leave, and `enter` takes what it returned.
class OutsideGuard {
 public:
  virtual ~OutsideGuard() = default;
  virtual void* leave() noexcept = 0;
  virtual void enter(void* token) noexcept = 0;
};

struct OutsideState {
  OutsideGuard* guard = nullptr;
  // A thread is about to fork: until it has, the engine lets other threads wait, and the forking
  // thread may need the lock they hold.
  std::atomic<bool> forking{false};
};
OutsideState& outside_state() noexcept;

// Outside for the lifetime of the object, if `needed` or if a thread is about to fork.
class Outside {
 public:
  explicit Outside(bool needed) {
    OutsideState& state = outside_state();
    if (state.guard == nullptr) return;
    if (!needed && !state.forking.load(std::memory_order_relaxed)) return;
    guard_ = state.guard;
    token_ = guard_->leave();
  }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
  ~Outside() {
    if (guard_ != nullptr) guard_->enter(token_);
  }

 private:
  OutsideGuard* guard_ = nullptr;
  void* token_ = nullptr;
};

}  // namespace mx::nd
