// SPDX-License-Identifier: Apache-2.0
//
// Waiting.  A wait takes a place in the variable's queue like an operation, but is granted and
// given back by the thread that makes it ready, without a detour through a pool.
#include "waiting.hpp"

#include <cstdio>
#include <new>

#include "bulk.hpp"
#include "frame.hpp"
#include "refusal.hpp"

namespace mx::engine {
namespace {

int32_t refuse_lost(mx_error* error) noexcept {
  return set_error(error, MX_ERROR,
                   "[wait_for_variable] the operations that use the variable were pending in the "
                   "parent when the process was forked, and do not exist here");
}

// A reader asks whether to go on: what it calls may wait for everything, fork, or end the engine, so that the read does
// not count as pending meanwhile.
struct Asking {
  Admission& admission;
  mx_go_on_fn go_on;
  void* argument;
  mx_error* error;
  bool admitted = true;
  int32_t refused = MX_OK;

  static int32_t ask(void* self) {
    auto* asking = static_cast<Asking*>(self);
    asking->admission.leave();
    asking->admitted = false;
    if (asking->go_on(asking->argument) == 0) return 0;
    asking->refused = asking->admission.enter(false, asking->error);
    asking->admitted = asking->refused == MX_OK;
    return asking->admitted ? 1 : 0;
  }
};

// While a thread of a pool waits inside an operation another one may take its place.
class BlockingScope {
 public:
  BlockingScope() noexcept : worker_(WorkerPool::current()) {
    if (worker_ != nullptr) worker_->pool->begin_blocking(worker_);
  }
  ~BlockingScope() {
    if (worker_ != nullptr) worker_->pool->end_blocking();
  }
  BlockingScope(const BlockingScope&) = delete;
  BlockingScope& operator=(const BlockingScope&) = delete;

 private:
  Worker* const worker_;
};

}  // namespace

// Whether a wait for the variable, which is locked, would never end.
int32_t Waiting::refuse_wait(Variable* variable, bool for_write, mx_error* error) noexcept {
  if (const char* holder = Frame::holder(variable)) {
    char text[sizeof error->message];
    std::snprintf(text, sizeof text,
                  "[wait_for_variable] called inside operation '%s', which uses the variable: it "
                  "would wait for itself; push what needs the result instead",
                  holder);
    return set_error(error, MX_ERROR, text);
  }
  if (variables_.lost(variable, for_write)) return refuse_lost(error);
  if (admission_.is_shut_down()) {
    return set_error(error, MX_ERROR_SHUTDOWN,
                     "[wait_for_variable] the engine was shut down before the variable was ready");
  }
  return MX_OK;
}

int32_t Waiting::begin_wait(VariableWait& wait, Variable* variable, bool for_write,
                           mx_error* error) noexcept {
  const Locked used(variable);
  variable = wait.variable = used.get();
  wait.forks = Frame::forks();
  if (wait.keeps) variables_.use(variable);
  wait.granted = wait.immediate = wait.keeps ? variable->read_if_idle() : variable->idle(for_write);
  if (wait.granted) {
    wait.held = wait.keeps;
    wait.poison = engine::retain(variable->poison);
    return MX_OK;
  }
  if (const int32_t refused = refuse_wait(variable, for_write, error)) return refused;
  if (monitor_ != nullptr) {
    const std::string text = monitor_->wait_begins(variable, for_write);
    if (!text.empty()) return refused("wait_for_variable", error, MX_ERROR, text.c_str());
  }
  wait.entry = {variable, &wait.block, nullptr, for_write};
  wait.block.kind = BlockKind::wait;
  wait.block.argument = &wait;
  wait.block.entries = &wait.entry;
  wait.block.n_entries = 1;
  ++variable->pins;
  variable->append(&wait.entry);
  return MX_OK;
}

bool Waiting::wait_until(VariableWait& wait,
                        std::chrono::steady_clock::time_point when) noexcept {
  if (!wait.granted && wait.forks != Frame::forks()) settle_in_child(wait);
  if (!wait.granted && !wait.lost) {
    const BlockingScope scope;
    scheduler_.begin_waiting();
    wait.granted = wait.waiter.spin_and_wait_until(when);
    scheduler_.end_waiting();
  }
  return wait.granted || wait.lost;
}

// No thread is left that would grant it, or say that it has.
void Waiting::settle_in_child(VariableWait& wait) noexcept {
  const std::lock_guard<ForkLock> lock(wait.variable->lock);
  wait.forks = Frame::forks();
  wait.variable->remove(&wait.entry);  // what is behind it in the queue stays there
  wait.granted = wait.ended;
  wait.lost = !wait.ended;
}

int32_t Waiting::end_wait(VariableWait& wait, mx_failure** failure, mx_error* error) {
  if (failure != nullptr) *failure = nullptr;
  if (!wait.granted && wait.forks != Frame::forks()) settle_in_child(wait);
  if (wait.lost) {
    variables_.unpin(wait.variable);
    return refuse_lost(error);
  }
  if (!wait.immediate) {
    if (monitor_ != nullptr) monitor_->wait_ended();
    bool removed = false;
    ReadyList ready;
    if (!wait.granted) {
      wait.variable->lock.lock();
      removed = wait.variable->remove(&wait.entry);
      if (removed) wait.variable->advance(ready);
      const bool dies = removed && wait.variable->may_die();
      wait.variable->lock.unlock();
      if (dies) variables_.die(wait.variable);
      if (!removed) wait.waiter.wait();  // granted in this moment
    }
    variables_.unpin(wait.variable);
    scheduler_.dispatch(ready);
    if (removed) return MX_TIMEOUT;
  }
  if (failure != nullptr) *failure = completion_.failures().deliver(wait.poison).release();
  engine::release(wait.poison);
  wait.poison = nullptr;
  return MX_OK;
}

bool Waiting::deliver_if_ready(Variable* variable, bool for_write, mx_failure** failure) noexcept {
  if (failure != nullptr) *failure = nullptr;
  Poison* poison = nullptr;
  {
    const Locked used(variable);
    if (!used->idle(for_write)) return false;
    poison = engine::retain(used->poison);
  }
  if (failure != nullptr) *failure = completion_.failures().deliver(poison).release();
  engine::release(poison);
  return true;
}

int32_t Waiting::wait_for_variable_while(Variable* variable, bool for_write, int64_t interval_ns,
                                        mx_go_on_fn go_on, void* argument, mx_failure** failure,
                                        mx_error* error) {
  if (deliver_if_ready(variable, for_write, failure)) return MX_OK;
  VariableWait wait;
  const int32_t status = begin_wait(wait, variable, for_write, error);
  if (status != MX_OK) return status;
  return wait_while(wait, interval_ns, go_on, argument, failure, error);
}

int32_t Waiting::wait_while(VariableWait& wait, int64_t interval_ns, mx_go_on_fn go_on, void* argument,
                            mx_failure** failure, mx_error* error) {
  const bool keeps = wait.keeps;
  bool given_up = false;
  while (!given_up && !wait_until(wait, deadline(interval_ns))) {
    if (keeps && !keep(wait, false)) continue;  // granted in this moment
    given_up = go_on(argument) == 0;
    if (keeps && !given_up) keep(wait, true);
  }
  if (!given_up) return end_wait(wait, failure, error);
  end_wait(wait, nullptr, nullptr);  // a failure is left to the next wait
  return MX_TIMEOUT;
}

bool Waiting::keep(VariableWait& wait, bool keeps) noexcept {
  const std::lock_guard<ForkLock> lock(wait.variable->lock);
  wait.keeps = keeps;
  return !wait.ended;
}

void Waiting::give_back(Variable* variable) {
  ReadyList ready;
  variable->lock.lock();
  variable->give_back(false);
  variable->advance(ready);
  const bool dies = variable->may_die();
  variable->lock.unlock();
  if (dies) variables_.die(variable);
  if (!ready.empty()) scheduler_.dispatch(ready);
}

int32_t Waiting::read_variable_while(Variable* variable, mx_read_fn read, void* reading, int64_t interval_ns,
                                    mx_go_on_fn go_on, void* argument, mx_failure** failure, mx_error* error) {
  *failure = nullptr;
  if (admission_.due_to_read() && admission_.ahead(false)) {  // somebody may wait for everything
    Bulk::flush_all(&scheduler_);
    admission_.hold_back(false);
  }
  // Pending, so that nobody forks or ends the engine while a thread has a grant.
  if (const int32_t refused = admission_.enter(false, error)) return refused;
  Asking asking{admission_, go_on, argument, error};
  Variable* reading_of = nullptr;  // what the grant is for
  Poison* poison = nullptr;
  bool granted = false;
  {
    const Locked used(variable);
    variables_.use(used.get());
    granted = used->read_if_idle();
    if (granted) {
      reading_of = used.get();
      poison = engine::retain(used->poison);
    }
  }
  int32_t status = MX_OK;
  if (granted) {
    if (poison != nullptr) *failure = completion_.failures().deliver(poison).release();
    engine::release(poison);
  } else if (go_on == nullptr) {
    status = MX_TIMEOUT;
  } else {
    do {  // again if it was granted, and given back, while go_on ran
      VariableWait wait;
      wait.keeps = true;
      status = begin_wait(wait, variable, false, error);
      if (status == MX_OK) status = wait_while(wait, interval_ns, &Asking::ask, &asking, failure, error);
      granted = status == MX_OK && wait.held;
      reading_of = wait.variable;
    } while (status == MX_OK && !granted && *failure == nullptr);
    if (asking.refused != MX_OK) status = asking.refused;
  }
  if (granted) {
    if (*failure == nullptr) read(reading);
    give_back(reading_of);
  }
  if (asking.admitted) admission_.leave();
  return status;
}

int32_t Waiting::wait_for_variable(Variable* variable, bool for_write, int64_t timeout_ns,
                                  mx_failure** failure, mx_error* error) {
  if (deliver_if_ready(variable, for_write, failure)) return MX_OK;
  if (timeout_ns == 0) {  // without a place in the queue: who grants it may be slow to say so
    const Locked used(variable);
    const int32_t refused = refuse_wait(used.get(), for_write, error);
    return refused != MX_OK ? refused : MX_TIMEOUT;
  }
  VariableWait wait;
  const int32_t status = begin_wait(wait, variable, for_write, error);
  if (status != MX_OK) return status;
  if (!wait.granted) wait_until(wait, deadline(timeout_ns));
  return end_wait(wait, failure, error);
}

int32_t Waiting::wait_for_all(int64_t timeout_ns, mx_failure** failure, mx_error* error) noexcept {
  if (failure != nullptr) *failure = nullptr;
  if (Frame::any()) {
    return set_error(error, MX_ERROR,
                     "[wait_for_all] called inside an operation: it would wait for itself; wait "
                     "for single variables instead");
  }
  if (!drain(timeout_ns)) return MX_TIMEOUT;
  if (failure != nullptr) *failure = completion_.failures().deliver_all().release();
  return MX_OK;
}

mx_failure* Waiting::failure_of(Variable* variable) noexcept {
  const Locked used(variable);
  if (used->poison == nullptr) return nullptr;
  // The parts of a whole had come into being when they were joined: once it was delivered a failure is none of theirs,
  // unless for it something else was skipped, that would have written who knows which.
  const Poison& poison = *used->poison;
  const bool alone = !poison.inherited.load(std::memory_order_relaxed);
  if (used->parts != 0 && alone && !completion_.failures().active(&poison)) return nullptr;
  return FailureRef(used->poison->failure).release();
}

bool Waiting::ready(Variable* variable, bool for_write) noexcept {
  if (Locked(variable)->idle(for_write)) return true;
  Bulk::flush_all(&scheduler_);  // who asks again and again must see it happen
  return false;
}

uint64_t Waiting::pending() noexcept {
  const uint64_t n = admission_.pending();
  if (n != 0) Bulk::flush_all(&scheduler_);
  return n;
}

bool Waiting::drain(int64_t timeout_ns) noexcept {
  if (admission_.pending() == 0) return true;
  scheduler_.begin_waiting();
  const bool quiet = admission_.wait_until_quiet(deadline(timeout_ns));
  scheduler_.end_waiting();
  return quiet;
}

}  // namespace mx::engine
