// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <initializer_list>

namespace mx::cpu {

// Keeps signals from the calling thread for a scope, but for those that say what it has done itself.  Threads that are
// started meanwhile get none while they live: helpers of a team have no signal stack, see mx_core/signal_stack.hpp, and
// timers of profilers send theirs to whoever computes.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) ::sigdelset(&blocked, own);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace mx::cpu
