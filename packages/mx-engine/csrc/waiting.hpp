// SPDX-License-Identifier: Apache-2.0
//
// Waiting for variables and for everything.
#pragma once

#include <chrono>
#include <cstdint>

#include "scheduler.hpp"
#include "variable_wait.hpp"

namespace mx::engine {

// Threads: any.
class Waiting {
 public:
  Waiting(Admission& admission, Variables& variables, Completion& completion, Scheduler& scheduler,
          Monitor* monitor) noexcept
      : admission_(admission),
        variables_(variables),
        completion_(completion),
        scheduler_(scheduler),
        monitor_(monitor) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // A wait in three steps, so that it can be interrupted without losing its place: begin_wait
  // takes the place, wait_until sleeps on it (as often as needed), end_wait leaves, delivers the
  // failure, and must be called when begin_wait returned MX_OK.  A fork may come between two steps: in the child the
  // wait is over, and end_wait says that it was lost unless it had been granted.
  int32_t begin_wait(VariableWait& wait, Variable* variable, bool for_write,
                     mx_error* error) noexcept;
  bool wait_until(VariableWait& wait, std::chrono::steady_clock::time_point when) noexcept;
  int32_t end_wait(VariableWait& wait, mx_failure** failure, mx_error* error);

  int32_t wait_for_variable(Variable* variable, bool for_write, int64_t timeout_ns,
                            mx_failure** failure, mx_error* error);
  // Keeps its place while go_on(argument), asked at every interval, is not 0.
  int32_t wait_for_variable_while(Variable* variable, bool for_write, int64_t interval_ns,
                                  mx_go_on_fn go_on, void* argument, mx_failure** failure,
                                  mx_error* error);
  // Keeps its place in the same way, and what it is granted while it reads; never blocks for the variable
  // without go_on.
  int32_t read_variable_while(Variable* variable, mx_read_fn read, void* reading, int64_t interval_ns,
                              mx_go_on_fn go_on, void* argument, mx_failure** failure, mx_error* error);
  int32_t wait_for_all(int64_t timeout_ns, mx_failure** failure, mx_error* error) noexcept;
  mx_failure* failure_of(Variable* variable) noexcept;
  bool ready(Variable* variable, bool for_write) noexcept;

  // Operations not yet finished.
  uint64_t pending() noexcept;
  // Whether everything pushed finished within the time.
  bool drain(int64_t timeout_ns) noexcept;

 private:
  int32_t refuse_wait(Variable* variable, bool for_write, mx_error* error) noexcept;
  // Whether nothing has to be waited for; *failure is then the variable's.
  bool deliver_if_ready(Variable* variable, bool for_write, mx_failure** failure) noexcept;
  // begin_wait until end_wait, while go_on(argument) is not 0.
  int32_t wait_while(VariableWait& wait, int64_t interval_ns, mx_go_on_fn go_on, void* argument,
                     mx_failure** failure, mx_error* error);
  // What a wait comes to in the child of a fork.
  void settle_in_child(VariableWait& wait) noexcept;
  // Whether a wait still has to wait; it keeps what it will be granted, or not.
  static bool keep(VariableWait& wait, bool keeps) noexcept;
  // Ends a read that was granted to a thread.
  void give_back(Variable* variable);

  Admission& admission_;
  Variables& variables_;
  Completion& completion_;
  Scheduler& scheduler_;
  Monitor* const monitor_;
};

}  // namespace mx::engine
