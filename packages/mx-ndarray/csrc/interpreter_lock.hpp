// SPDX-License-Identifier: Apache-2.0
//
// Leaving the interpreter's lock around calls to the engine that may take long.
#pragma once

#include <atomic>
#include <cstddef>

namespace mx::nd {

// How to leave and enter; the bindings install one.  `leave` returns NULL when there is nothing to
// leave, and `enter` takes what it returned.
class InterpreterLock {
 public:
  virtual ~InterpreterLock() = default;
  virtual void* leave() noexcept = 0;
  virtual void enter(void* token) noexcept = 0;
};

struct InterpreterLockState {
  InterpreterLock* lock = nullptr;
  // A thread is about to fork: until it has, the engine lets other threads wait, and the forking
  // thread may need the lock they hold.
  std::atomic<bool> forking{false};
};
InterpreterLockState& interpreter_lock_state() noexcept;

constexpr size_t kLetGilGo = size_t{1} << 16;  // bytes from which leaving it for a copy is worth it

// Without the lock for the lifetime of the object, if `needed` or if a thread is about to fork.
class WithoutInterpreter {
 public:
  explicit WithoutInterpreter(bool needed) {
    InterpreterLockState& state = interpreter_lock_state();
    if (state.lock == nullptr) return;
    if (!needed && !state.forking.load(std::memory_order_relaxed)) return;
    lock_ = state.lock;
    token_ = lock_->leave();
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;
  ~WithoutInterpreter() {
    if (lock_ != nullptr) lock_->enter(token_);
  }

 private:
  InterpreterLock* lock_ = nullptr;
  void* token_ = nullptr;
};

}  // namespace mx::nd
