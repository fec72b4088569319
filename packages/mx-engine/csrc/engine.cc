// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include "bulk.h"
#include "frame.h"
#include "lock_order.h"
#include "openmp.h"
#include "table.h"

namespace mx::engine {

thread_local Frame* Frame::top_ = nullptr;

namespace {

// Operations that push inline operations that push inline operations end on a worker some time.
constexpr uint32_t kMaxInlineDepth = 16;

int32_t refuse(const mx_operation& operation, mx_error* error, mx_status code, const char* text) {
  refused(operation.name, error, code, text);
  if (operation.destroy != nullptr) operation.destroy(operation.argument);
  return code;
}

// Launching takes little time, but for copies, which may block until pageable memory is free.
bool runs_inline(const Block& block) noexcept {
  if ((block.flags & MX_PUSH_INLINE) != 0) return true;
  return block.stream != nullptr && block.run != nullptr &&
         (block.flags & MX_PUSH_PYTHON) == 0 && block.stream->lane == 0;
}

// What is wrong with the operation, its variables aside, or NULL.
const char* fault(const mx_operation& operation) noexcept {
  if ((operation.run == nullptr) == (operation.run_async == nullptr)) {
    return "expected exactly one of run and run_async to be set";
  }
  if (operation.property < MX_FN_NORMAL || operation.property > MX_FN_NO_SKIP) {
    return "expected a property of mx_fn_property";
  }
  if (operation.property == MX_FN_DELETE_VARIABLE) {
    return "expected another property; variables are deleted with delete_variable";
  }
  return nullptr;
}

const char* duplicate_text(const mx_operation& operation, const Variable* twice) noexcept {
  const auto count = [twice](Variable* const* list, uint32_t n) {
    return std::count(list, list + n, twice);
  };
  if (count(operation.reads, operation.n_reads) == 0) {
    return "expected distinct variables, got one that is listed twice among the writes";
  }
  if (count(operation.writes, operation.n_writes) == 0) {
    return "expected distinct variables, got one that is listed twice among the reads";
  }
  return "expected distinct variables, got one that is both read and mutated; list it among the "
         "writes only";
}

}  // namespace

int32_t refused(const char* name, mx_error* error, mx_status code, const char* text) noexcept {
  if (error == nullptr) return code;
  error->code = code;
  const int n = std::snprintf(error->message, sizeof error->message, "[%s] ",
                              name == nullptr ? "push" : name);
  const size_t used = std::min(static_cast<size_t>(n), sizeof error->message - 1);
  std::snprintf(error->message + used, sizeof error->message - used, "%s", text);
  return code;
}

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      lanes_(*this, options_.limits, options_.per_device),
      monitor_(options_.debug ? new Monitor : nullptr) {
  fill_table(&table_, this);
  enlist();
}

Variable* Engine::new_variable() noexcept {
  auto* variable = new (std::nothrow) Variable;
  if (monitor_ != nullptr && variable != nullptr) monitor_->born(variable);
  return variable;
}

uint64_t Engine::version(Variable* variable) noexcept {
  std::lock_guard<SpinLock> lock(variable->lock);
  return variable->version;
}

// Counts the operation as pending, unless nothing may be pushed any more.
int32_t Engine::enter(bool deletion, mx_error* error) noexcept {
  for (;;) {
    // Ordered against try_close_for_fork: either it sees the count or this sees the state.
    pending_.fetch_add(1, std::memory_order_seq_cst);
    const int state = state_.load(std::memory_order_seq_cst);
    if (state == accepting || (state == closing && (deletion || Frame::any()))) return MX_OK;
    leave();
    if (state == closing || state == shut_down) {
      return set_error(error, MX_ERROR_SHUTDOWN,
                       "the engine was shut down; nothing can be pushed");
    }
    if (forking_thread_.load(std::memory_order_acquire) == std::this_thread::get_id()) {
      return set_error(error, MX_ERROR, "nothing can be pushed by a thread that is about to fork");
    }
    sleep();
  }
}

void Engine::sleep() const noexcept {
  if (options_.sleep != nullptr) {
    options_.sleep();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Engine::leave() noexcept {
  if (pending_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      quiet_waiters_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(quiet_mutex_);
    quiet_.notify_all();
  }
}

int32_t Engine::check_writes(const mx_operation& operation, mx_error* error) noexcept {
  const std::string text = monitor_->undeclared_write(operation.writes, operation.n_writes);
  return text.empty() ? int32_t{MX_OK} : refused(operation.name, error, MX_ERROR, text.c_str());
}

Block* Engine::make_block(const mx_operation& operation) {
  const uint32_t n = operation.n_reads + operation.n_writes;
  Block* block = allocate_block(n);
  block->kind = BlockKind::operation;
  block->flags = operation.flags;
  block->context = operation.context;
  block->property = operation.property;
  block->priority = operation.priority;
  block->name = operation.name;
  block->origin = operation.origin;
  block->run = operation.run;
  block->run_async = operation.run_async;
  block->argument = operation.argument;
  block->destroy = operation.destroy;
  block->reusable = nullptr;
  block->bulk = 0;
  block->rest = nullptr;
  block->stream = nullptr;
  block->flight = nullptr;
  block->pusher = block->completion = nullptr;
  block->report = nullptr;
  block->pushed = profile_.on() ? now_ns() : 0;
  block->n_reads = operation.n_reads;
  for (uint32_t i = 0; i < n; ++i) {
    const bool write = i >= operation.n_reads;
    Variable* variable =
        write ? operation.writes[i - operation.n_reads] : operation.reads[i];
    block->entries[i] = {variable, block, nullptr, write};
  }
  return block;
}

int32_t Engine::push(const mx_operation& operation, mx_failure** failure, mx_error* error) {
  if (failure != nullptr) *failure = nullptr;
  if (operation.size < sizeof(mx_operation)) {
    return set_error(error, MX_ERROR_ABI, "[push] mx_operation is of an older interface");
  }
  if (const char* text = fault(operation)) return refuse(operation, error, MX_ERROR_VALUE, text);
  Stream* stream = nullptr;
  int32_t status = MX_OK;
  if (!is_host(operation.context)) {
    status = find_stream(operation.context, operation, &stream, error);
  }
  if (status == MX_OK && monitor_ != nullptr) status = check_writes(operation, error);
  if (status == MX_OK && lost_forks_ != 0) status = check_lost(operation, error);
  if (status == MX_OK) status = enter(false, error);
  if (status != MX_OK) {
    if (operation.destroy != nullptr) operation.destroy(operation.argument);
    return status;
  }
  try {
    const LockOrder order(operation.reads, operation.n_reads, operation.writes,
                          operation.n_writes);
    if (Variable* twice = order.duplicate()) {
      leave();
      return refuse(operation, error, MX_ERROR_VALUE, duplicate_text(operation, twice));
    }
    Block* block = make_block(operation);
    block->stream = stream;
    launch(block, order, failure);
  } catch (const std::bad_alloc&) {
    leave();
    return refuse(operation, error, MX_ERROR_MEMORY, "out of host memory");
  }
  return MX_OK;
}

Operator* Engine::new_operator(const mx_operation& prototype, mx_error* error) noexcept {
  if (prototype.size < sizeof(mx_operation)) {
    set_error(error, MX_ERROR_ABI, "[new_operator] mx_operation is of an older interface");
    return nullptr;
  }
  if (const char* text = fault(prototype)) {
    refuse(prototype, error, MX_ERROR_VALUE, text);
    return nullptr;
  }
  try {
    const LockOrder order(prototype.reads, prototype.n_reads, prototype.writes,
                          prototype.n_writes);
    if (Variable* twice = order.duplicate()) {
      refuse(prototype, error, MX_ERROR_VALUE, duplicate_text(prototype, twice));
      return nullptr;
    }
    auto op = std::make_unique<Operator>();
    op->variables.assign(prototype.reads, prototype.reads + prototype.n_reads);
    op->variables.insert(op->variables.end(), prototype.writes,
                         prototype.writes + prototype.n_writes);
    op->prototype = prototype;
    op->prototype.reads = op->variables.data();
    op->prototype.writes = op->variables.data() + prototype.n_reads;
    return op.release();
  } catch (const std::bad_alloc&) {
    refuse(prototype, error, MX_ERROR_MEMORY, "out of host memory");
    return nullptr;
  }
}

int32_t Engine::push_operator(Operator* op, mx_context context, int32_t priority,
                              mx_failure** failure, mx_error* error) {
  if (failure != nullptr) *failure = nullptr;
  const mx_operation& prototype = op->prototype;
  Stream* stream = nullptr;
  if (!is_host(context)) {
    if (const int32_t status = find_stream(context, prototype, &stream, error)) return status;
  }
  if (monitor_ != nullptr) {
    if (const int32_t status = check_writes(prototype, error)) return status;
  }
  if (lost_forks_ != 0) {
    if (const int32_t status = check_lost(prototype, error)) return status;
  }
  if (const int32_t status = enter(false, error)) return status;
  try {
    const LockOrder order(prototype.reads, prototype.n_reads, prototype.writes,
                          prototype.n_writes);
    Block* block = make_block(prototype);
    block->context = context;
    block->priority = priority;
    block->destroy = nullptr;  // the operator's argument goes with the operator
    block->reusable = op;
    block->stream = stream;
    op->references.fetch_add(1, std::memory_order_relaxed);
    launch(block, order, failure);
  } catch (const std::bad_alloc&) {
    leave();
    return set_error(error, MX_ERROR_MEMORY, "[push_operator] out of host memory");
  }
  return MX_OK;
}

// The linearisation point of a push: every place is taken while every variable is locked.
void Engine::launch(Block* block, const LockOrder& order, mx_failure** failure) {
  Bulk& bulk = Bulk::of_this_thread();
  if (bulk.open() && !options_.naive) bulk.join(this, block);
  const bool in_bulk = block->bulk != 0;
  const bool wait_for_turn = options_.naive && !Frame::any();
  Waiter turn;
  if (wait_for_turn) block->pusher = &turn;
  order.lock();
  if (monitor_ != nullptr) monitor_->pushed(block);
  uint32_t queued = 0;
  for (uint32_t i = 0; i < block->n_entries; ++i) {
    Entry& entry = block->entries[i];
    if (entry.variable->forks != lost_forks_ && !lost(entry.variable, true)) entry.variable->forks = lost_forks_;
    if (!entry.variable->append(&entry)) ++queued;
  }
  block->ungranted.store(queued, std::memory_order_relaxed);
  order.unlock();

  if (queued > 0) {
    // The block may be running already, or gone.  A naive push waits for its turn; inside an
    // operation it must not: the operation itself may be what it would wait for.
    if (!wait_for_turn) {
      if (in_bulk) bulk.count();
      return;
    }
    turn.wait();
  }
  if (options_.naive) {
    block->pusher = nullptr;
    run_naively(block, failure);
    return;
  }
  ReadyList ready;
  if (runs_inline(*block) && Frame::depth() < kMaxInlineDepth) {
    execute(block, 0, ready);
  } else if (in_bulk && bulk.hold(this, block)) {
    bulk.count();
  } else {
    ready.push(block);
  }
  if (!ready.empty()) dispatch(ready);
}

void Engine::run_naively(Block* block, mx_failure** failure) {
  Waiter done;
  const bool asynchronous = block->run_async != nullptr;
  if (asynchronous) block->completion = &done;
  block->report = failure;
  ReadyList ready;
  execute(block, 0, ready);
  if (asynchronous) done.wait();
  dispatch(ready);
}

Poison* Engine::find_poison(const Block& block) const noexcept {
  for (uint32_t i = 0; i < block.n_entries; ++i) {
    Poison* poison = block.entries[i].variable->poison;
    if (poison != nullptr && failures_.active(poison)) return poison;
  }
  return nullptr;
}

void Engine::execute(Block* block, uint32_t worker, ReadyList& ready) {
  if (block->pushed != 0) {
    block->started = now_ns();
    block->thread = thread_number();
  }
  if (block->stream != nullptr && !options_.naive) {
    if (take_off(block)) {
      run_body(block, worker, ready);
    } else {
      launched(block, {}, ready);
    }
    return;
  }
  if (block->property != MX_FN_NO_SKIP) {
    Poison* poison = cancellation();
    if (poison == nullptr) poison = find_poison(*block);
    if (poison != nullptr) {
      finish(block, {}, poison, ready);
      return;
    }
  }
  run_body(block, worker, ready);
}

namespace {

void report_part(void* profile, const mx_engine_event* part) {
  static_cast<Profile*>(profile)->report_part(*part);
}

}  // namespace

void Engine::run_body(Block* block, uint32_t worker, ReadyList& ready) {
  const mx_run_context context{sizeof(mx_run_context), worker, block->context,
                               block->stream == nullptr ? nullptr : block->stream->handle,
                               block->pushed == 0 ? nullptr : &report_part, &profile_, 0};
  if (block->run_async != nullptr) {
    block->unfinished_parts.store(2, std::memory_order_relaxed);
    {
      const Frame frame(block);
      block->run_async(block->argument, &context, reinterpret_cast<mx_completion*>(block));
    }
    if (block->unfinished_parts.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      conclude(block, FailureRef(block->async_failure), ready);
    }
    return;
  }
  FailureRef failure;
  try {
    const Frame frame(block);
    failure = FailureRef(block->run(block->argument, &context));
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being ended; swallowing that would end the process
  } catch (const std::exception& e) {
    failure = FailureRef(make_failure(MX_ERROR, e.what()));
  } catch (...) {
    failure = FailureRef(make_failure(MX_ERROR, "unknown C++ exception"));
  }
  conclude(block, std::move(failure), ready);
}

// The body has run, wherever and whenever it did.
void Engine::conclude(Block* block, FailureRef failure, ReadyList& ready) noexcept {
  if (block->stream == nullptr) {
    finish(block, std::move(failure), nullptr, ready);
  } else {
    launched(block, std::move(failure), ready);
  }
}

void Engine::finish(Block* block, FailureRef failure, Poison* inherited,
                    ReadyList& ready) noexcept {
  if (monitor_ != nullptr) monitor_->finished(block);
  const bool failed = failure || inherited != nullptr;
  Poison* poison = failure ? failures_.enter(std::move(failure), block->name, block->origin)
                           : engine::retain(inherited);
  if (profile_.on()) profile_.report(*block, failed);
  if (block->reusable != nullptr) {
    engine::release(block->reusable);
  } else if (block->destroy != nullptr) {
    block->destroy(block->argument);
  }
  if (block->flight != nullptr) block->flight->outcome = engine::retain(poison);
  if (block->report != nullptr) *block->report = failures_.deliver(poison).release();
  for (uint32_t i = 0; i < block->n_entries; ++i) release_entry(block->entries[i], poison, ready);
  Waiter* completion = block->completion;
  engine::release(poison);
  free_block(block);
  leave();
  if (completion != nullptr) completion->signal();
}

void Engine::release_entry(const Entry& entry, Poison* poison, ReadyList& ready) noexcept {
  Variable* variable = entry.variable;
  Poison* former = nullptr;
  variable->lock.lock();
  if (entry.write) {
    if (!variable->dying) ++variable->version;
    // A failure nobody has seen yet is the first cause: neither a later failure nor the success
    // of an operation that ran in spite of it takes its place.
    if (variable->poison != poison && !failures_.active(variable->poison)) {
      former = std::exchange(variable->poison, engine::retain(poison));
    }
  }
  if (Flight* flight = entry.block->flight) {
    variable->land(flight, &entry);
  } else {
    variable->give_back(entry.write);
  }
  variable->advance(ready);
  const bool dies = variable->may_die();
  variable->lock.unlock();
  if (dies) die(variable);
  engine::release(former);
}

void Engine::complete(Block* block, mx_failure* failure) {
  // Once the operation no longer counts as pending, only this keeps the engine from being freed.
  visitors_.fetch_add(1, std::memory_order_relaxed);
  block->async_failure = failure;
  if (block->unfinished_parts.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    ReadyList ready;
    conclude(block, FailureRef(failure), ready);
    dispatch(ready);
  }
  visitors_.fetch_sub(1, std::memory_order_release);
}

void Engine::run(Block* block, uint32_t worker) {
  thread_local int applied = 0;
  const int threads = omp_threads();
  if (threads != applied && threads != 0) set_openmp_threads(applied = threads);
  if (block->bulk != 0) {
    run_bulk(block, worker);
    return;
  }
  ReadyList ready;
  execute(block, worker, ready);
  if (!ready.empty()) dispatch(ready);
}

// Sends every block where it belongs.  Blocks that belong to one pool and became ready together
// are handed over together.
void Engine::dispatch(ReadyList ready) {
  WorkerPool* pool = nullptr;
  ReadyList batch;
  const auto flush = [&] {
    if (batch.empty()) return;
    if (!pool->submit(std::exchange(batch, ReadyList()))) {
      while (Block* stranded = pool->take()) execute(stranded, 0, ready);
    }
  };
  for (;;) {
    Block* block = ready.pop();
    if (block == nullptr) {
      flush();
      if (ready.empty()) return;
      continue;
    }
    if (block->kind == BlockKind::wait) {
      finish_wait(block, ready);
    } else if (block->property == MX_FN_DELETE_VARIABLE) {
      execute_deletion(block);
    } else if (block->pusher != nullptr) {
      block->pusher->signal();
    } else if (options_.naive) {
      execute(block, 0, ready);
    } else {
      WorkerPool* destination = lanes_.find(*block);
      if (destination == nullptr) {
        execute(block, 0, ready);
        continue;
      }
      if (destination != pool) flush();
      pool = destination;
      batch.push(block);
    }
  }
}

void Engine::delete_variable(Variable* variable, mx_context context, void (*deleter)(void*),
                             void* argument) {
  if (lost_forks_ != 0) {
    const std::lock_guard<SpinLock> lock(variable->lock);
    if (lost(variable, true)) return;  // in use for ever: it goes with the process
  }
  if (enter(true, nullptr) != MX_OK) {
    variable->lock.lock();
    const bool unused = variable->idle(true) && variable->pins == 0;
    variable->lock.unlock();
    // What still waits will never run: the memory then goes with the process.
    if (!unused) return;
    if (deleter != nullptr) deleter(argument);
    free_variable(variable);
    return;
  }
  mx_operation operation{};
  operation.context = context;
  operation.property = MX_FN_DELETE_VARIABLE;
  operation.name = "delete_variable";
  operation.writes = &variable;
  operation.n_writes = 1;
  operation.argument = argument;
  operation.destroy = deleter;
  Block* block = nullptr;
  try {
    block = make_block(operation);
  } catch (const std::bad_alloc&) {  // the variable itself remembers what is to be done
    variable->lock.lock();
    variable->dying = true;
    variable->deleter = deleter;
    variable->argument = argument;
    const bool dies = variable->may_die();
    variable->lock.unlock();
    if (dies) die(variable);
    return;
  }
  variable->lock.lock();
  block->ungranted.store(1, std::memory_order_relaxed);
  const bool granted = variable->append(&block->entries[0]);
  variable->lock.unlock();
  if (granted) execute_deletion(block);
}

void Engine::execute_deletion(Block* block) noexcept {
  Variable* variable = block->entries[0].variable;
  if (block->destroy != nullptr) block->destroy(block->argument);
  free_block(block);
  end(variable);
}

// A dying variable that nobody uses any more; called by the last one who did.
void Engine::die(Variable* variable) noexcept {
  if (variable->deleter != nullptr) variable->deleter(variable->argument);
  end(variable);
}

void Engine::end(Variable* variable) noexcept {
  if (monitor_ != nullptr) monitor_->died(variable);
  variable->lock.lock();
  variable->deleted = true;
  const bool last = variable->pins == 0;
  variable->lock.unlock();
  if (last) free_variable(variable);
  leave();
}

}  // namespace mx::engine
