// SPDX-License-Identifier: Apache-2.0
//
// The variables of an engine: anybody makes them, they end after everything that was pushed on them, and
// a fork loses those that were in use.
#pragma once

#include <cstdint>
#include <vector>

#include "admission.hpp"
#include "monitor.hpp"
#include "variable.hpp"

namespace mx::engine {

// What is used in the place of variables; in order, each once.  Throws std::bad_alloc.
std::vector<Variable*> wholes_of(Variable* const* variables, uint32_t n);

// Threads: any.
class Variables {
 public:
  // `monitor`: the debugging engine's, or NULL.
  Variables(Admission& admission, Monitor* monitor) noexcept : admission_(admission), monitor_(monitor) {}
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

  // NULL when memory is exhausted.
  Variable* new_variable() noexcept;
  // Calls deleter(argument) once everything that was pushed on the variable has finished.
  void delete_variable(Variable* variable, mx_context context, void (*deleter)(void*), void* argument);
  // Finished writes.
  uint64_t version(Variable* variable) noexcept;
  // From now on one variable, `joint`, is used in place of all of them.  It ends with the last of them.  MX_TIMEOUT:
  // one is in use, or has failed.
  int32_t join(Variable* const* variables, uint32_t n, Variable** joint, mx_error* error) noexcept;

  // The block of a variable's end, without a deleter.  Throws std::bad_alloc.
  static Block* make_deletion(Variable* variable);
  // A deletion whose turn has come.
  void execute_deletion(Block* block) noexcept;
  // Ends a dying variable that nobody uses any more; for the last one who did.
  void die(Variable* variable) noexcept;
  // Ends a pin; frees a variable that was deleted meanwhile.
  void unpin(Variable* variable) noexcept;
  // Whether a variable that is pinned has not ended.
  static bool exists(Variable* variable) noexcept;
  // Ends the pins of variables that were noted.
  void forget(const std::vector<Variable*>& noted) noexcept;

  // Whether the variable waits for operations that a parent had pending at a fork, and will for ever.
  // The variable is locked.
  bool lost(const Variable* variable, bool for_write) const noexcept;
  // Whether any variable can be lost.
  bool any_lost() const noexcept { return lost_forks_ != 0; }
  // Refuses an operation on variables that are lost.
  int32_t check_lost(const mx_operation& operation, mx_error* error) noexcept;
  // An operation of this process takes a place at the variable, which is locked.
  void use(Variable* variable) noexcept {
    if (variable->forks != lost_forks_ && !lost(variable, true)) variable->forks = lost_forks_;
  }
  // In the child of a fork: whatever is in use is lost.
  void lose_pending() noexcept { ++lost_forks_; }

 private:
  static Block* take_deletion(Variable* variable) noexcept;
  static Block* deletion_of(Variable* variable) noexcept;
  void end(Variable* variable) noexcept;
  // A variable that nobody uses any more, or NULL: it is freed, when nobody pins it, and with its last part the whole.
  void discard(Variable* variable) noexcept;
  Variable* free(Variable* variable) noexcept;

  Admission& admission_;
  Monitor* const monitor_;
  uint32_t lost_forks_ = 0;  // forks up to this process at which the parent had something pending
};

}  // namespace mx::engine
