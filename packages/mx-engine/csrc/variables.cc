// SPDX-License-Identifier: Apache-2.0
//
// Variables are made by anybody, and end after everything that was pushed on them.
#include "variables.hpp"

#include <new>
#include <utility>

#include "frame.hpp"
#include "refusal.hpp"

namespace mx::engine {

Variable* Variables::new_variable() noexcept {
  auto* variable = new (std::nothrow) Variable;
  if (monitor_ != nullptr && variable != nullptr) monitor_->born(variable);
  return variable;
}

uint64_t Variables::version(Variable* variable) noexcept {
  return Locked(variable)->version;
}

void Variables::delete_variable(Variable* variable, mx_context context, void (*deleter)(void*),
                             void* argument) {
  if (lost_forks_ != 0) {
    const Locked used(variable);
    if (lost(used.get(), true)) return;  // in use for ever: it goes with the process
  }
  if (admission_.enter(true, nullptr) != MX_OK) {
    // What still waits will never run: the memory then goes with the process.
    if (!Locked(variable)->idle(true)) return;
    if (deleter != nullptr) deleter(argument);
    discard(variable);
    return;
  }
  Block* block = deletion_of(variable);
  if (block == nullptr) {  // the variable itself remembers what is to be done
    bool dies = false;
    {
      const std::lock_guard<ForkLock> lock(variable->lock);
      block = take_deletion(variable);
      if (block == nullptr) {
        variable->dying = 1;
        variable->deleter = deleter;
        variable->argument = argument;
        dies = variable->may_die();
      }
    }
    if (dies) die(variable);
    if (block == nullptr) return;
  }
  block->context = context;
  block->argument = argument;
  block->destroy = deleter;
  bool idle = false;
  {
    const Locked used(variable);
    block->entries[0].variable = used.get();
    idle = used->idle(true);
    if (!idle) used->append(&block->entries[0]);
  }
  if (idle) execute_deletion(block);
}

// What a part has for its end, once; NULL of another variable.
Block* Variables::take_deletion(Variable* variable) noexcept {
  const bool part = variable->whole.load(std::memory_order_acquire) != nullptr;
  return part ? std::exchange(variable->deletion, nullptr) : nullptr;
}

// NULL when memory is exhausted.
Block* Variables::deletion_of(Variable* variable) noexcept {
  if (Block* block = take_deletion(variable)) return block;
  try {
    return make_deletion(variable);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Block* Variables::make_deletion(Variable* variable) {
  mx_operation operation{};
  operation.property = MX_FN_DELETE_VARIABLE;
  operation.name = "delete_variable";
  operation.writes = &variable;
  operation.n_writes = 1;
  Block* block = make_block(operation);
  block->kind = BlockKind::deletion;
  block->deletes = variable;
  return block;
}

void Variables::execute_deletion(Block* block) noexcept {
  Variable* variable = block->deletes;
  if (block->destroy != nullptr) block->destroy(block->argument);
  free_block(block);
  end(variable);
}

// A dying variable that nobody uses any more; called by the last one who did.
void Variables::die(Variable* variable) noexcept {
  if (variable->deleter != nullptr) variable->deleter(variable->argument);
  end(variable);
}

void Variables::end(Variable* variable) noexcept {
  discard(variable);
  admission_.leave();
}

// A part may be the last one of its whole, and that one in turn.
void Variables::discard(Variable* variable) noexcept {
  while (variable != nullptr) {
    if (monitor_ != nullptr) monitor_->died(variable);
    variable->lock.lock();
    variable->deleted = 1;
    const bool pinned = variable->pins != 0;
    variable->lock.unlock();
    if (pinned) return;
    variable = free(variable);
  }
}

// Returns the whole if this was its last part.
Variable* Variables::free(Variable* variable) noexcept {
  Variable* whole = variable->whole.load(std::memory_order_relaxed);
  // One that was noted may be joined while it ends.
  if (whole != nullptr && variable->deletion != nullptr) free_block(variable->deletion);
  release(variable->poison);
  delete variable;
  if (whole == nullptr) return nullptr;
  const std::lock_guard<ForkLock> lock(whole->lock);
  return --whole->parts == 0 ? whole : nullptr;
}

void Variables::unpin(Variable* variable) noexcept {
  variable->lock.lock();
  const bool last = --variable->pins == 0 && variable->deleted;
  variable->lock.unlock();
  if (last) discard(free(variable));
}

bool Variables::exists(Variable* variable) noexcept {
  const std::lock_guard<ForkLock> lock(variable->lock);
  return !variable->deleted;
}

void Variables::forget(const std::vector<Variable*>& noted) noexcept {
  for (Variable* variable : noted) {
    {
      const std::lock_guard<ForkLock> lock(variable->lock);
      variable->noted = 0;
    }
    unpin(variable);
  }
}

// Whether the variable waits for operations that a parent had pending at a fork, and will for ever; its lock is held.
bool Variables::lost(const Variable* variable, bool for_write) const noexcept {
  return variable->forks != lost_forks_ && !variable->idle(for_write) && Frame::holder(variable) == nullptr;
}

int32_t Variables::check_lost(const mx_operation& operation, mx_error* error) noexcept {
  bool any = false;
  const auto look = [&](Variable* const* variables, uint32_t n, bool for_write) {
    for (uint32_t i = 0; i < n && !any; ++i) {
      const Locked used(variables[i]);
      any = lost(used.get(), for_write);
    }
  };
  look(operation.reads, operation.n_reads, false);
  look(operation.writes, operation.n_writes, true);
  if (!any) return MX_OK;
  return refused(operation.name, error, MX_ERROR,
                 "a variable of it was used by operations that were pending in the parent when the process was "
                 "forked, and do not exist here; use a new variable");
}

}  // namespace mx::engine
