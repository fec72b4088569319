// SPDX-License-Identifier: Apache-2.0
//
// What happens when an operation has ended.  One of the host is then finished; one of an accelerator is
// launched first, and finished when the token after it is reached (device_completion.cc).
#pragma once

#include <atomic>

#include "admission.hpp"
#include "in_flight.hpp"
#include "monitor.hpp"
#include "poison.hpp"
#include "profile.hpp"
#include "variables.hpp"

namespace mx::engine {

// What became ready goes to the caller's list.  Threads: any.
class Completion {
 public:
  Completion(Admission& admission, Variables& variables, Profile& profile, Monitor* monitor, bool naive,
             bool sticky) noexcept
      : admission_(admission),
        variables_(variables),
        profile_(profile),
        monitor_(monitor),
        naive_(naive),
        failures_(sticky) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion() { engine::release(cancellation()); }

  FailureLedger& failures() noexcept { return failures_; }
  // From now on operations are skipped instead of begun, no-skip ones excepted; what they would have
  // written fails with `why`, which does not count as a failure nobody has seen.  For good.
  void cancel(const char* why) noexcept;
  // Why an operation of the host is to be skipped, or NULL; borrowed.
  Poison* reason_to_skip(const Block& block) const noexcept;

  // The body has run, wherever and whenever it did.
  void conclude(Block* block, FailureRef failure, ReadyList& ready) noexcept;
  // An asynchronous operation was completed; takes the failure.
  void complete(Block* block, mx_failure* failure, ReadyList& ready) noexcept;
  // An operation ends with a failure of its own, or with one that it `inherited` (borrowed) and was skipped for.
  void finish(Block* block, FailureRef failure, Poison* inherited, ReadyList& ready) noexcept;
  // After `cancel`: ends an operation that has not begun and never will, a no-skip one too.  False when there was no
  // memory to tell why; it then stays pending.
  bool drop(Block* block, ReadyList& ready) noexcept;

  // Before the body of an accelerator's operation: orders its stream after what it depends on.  False when
  // the body is not to be run.
  bool begin_on_device(Block* block) noexcept;
  // After it: from here on what the operation used is free for operations of its device.
  void on_launched(Block* block, FailureRef failure, ReadyList& ready) noexcept;
  // Takes the stream's reference to the operation, and the failure.
  void token_reached(InFlight* in_flight, mx_failure* failure, ReadyList& ready) noexcept;

  // Held across fork().
  void lock_for_fork() noexcept { failures_.lock(); }
  void unlock_after_fork() noexcept { failures_.unlock(); }

 private:
  Poison* cancellation() const noexcept { return cancellation_.load(std::memory_order_acquire); }
  Poison* find_poison(const Block& block) const noexcept;
  void release_entry(const Entry& entry, Poison* poison, ReadyList& ready) noexcept;
  void find_earlier(InFlight* in_flight);  // throws std::bad_alloc
  FailureRef order_on_device(InFlight* in_flight) noexcept;
  void on_dependency_ready(InFlight* in_flight, ReadyList& ready) noexcept;
  FailureRef wait_for_launched(Block* block) noexcept;

  Admission& admission_;
  Variables& variables_;
  Profile& profile_;
  Monitor* const monitor_;
  const bool naive_;
  FailureLedger failures_;
  std::atomic<Poison*> cancellation_{nullptr};  // what is skipped after `cancel` fails with it
};

}  // namespace mx::engine
