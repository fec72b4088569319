// SPDX-License-Identifier: Apache-2.0
//
// A stack for the signal handlers of a thread.
//
// oneDNN's products of matrices in float32 let the stack pointer point into their workspace while they run.  A signal
// handler that goes on where the pointer is writes over what lies before that on the heap.  Handlers that are set with
// SA_ONSTACK, as CPython's are, run on the thread's own signal stack instead, if it has one.
#pragma once

#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <cstddef>

namespace mx {

// Gives the calling thread a signal stack while it lives; a thread that has one keeps it.  Without memory for one the
// thread goes on as before.
class SignalStack {
 public:
  SignalStack() noexcept {
    stack_t found{};
    if (::sigaltstack(nullptr, &found) != 0 || (found.ss_flags & SS_DISABLE) == 0) return;
    const size_t bytes = kBytes + frame_bytes();
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    stack_t wanted{};
    wanted.ss_sp = memory;
    wanted.ss_size = bytes;
    if (::sigaltstack(&wanted, nullptr) != 0) {
      ::munmap(memory, bytes);
    } else {
      memory_ = memory;
      bytes_ = bytes;
    }
  }
  ~SignalStack() {
    if (memory_ == nullptr) return;
    stack_t found{};
    if (::sigaltstack(nullptr, &found) == 0 && found.ss_sp == memory_) {  // nobody has set another one
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      if (::sigaltstack(&none, nullptr) != 0) return;  // it is in use
    }
    ::munmap(memory_, bytes_);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  // Once for each thread; costs a look at a flag then.
  static void of_this_thread() noexcept { static thread_local const SignalStack stack; }

 private:
  static constexpr size_t kBytes = 64 << 10;  // for handlers
  // What the system puts there before: the registers.
  static size_t frame_bytes() noexcept {
#ifdef AT_MINSIGSTKSZ
    return static_cast<size_t>(::getauxval(AT_MINSIGSTKSZ));
#else
    return 16 << 10;
#endif
  }

  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace mx
