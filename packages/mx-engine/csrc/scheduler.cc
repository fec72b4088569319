// SPDX-License-Identifier: Apache-2.0
//
// Where and when operations run: from the places at their variables to a thread, and out of what
// became ready to the pools.
#include "scheduler.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <new>

#include "bulk.hpp"
#include "frame.hpp"
#include "lock_order.hpp"
#include "openmp.hpp"
#include "refusal.hpp"
#include "variable_wait.hpp"

namespace mx::engine {

thread_local Frame* Frame::top_ = nullptr;

namespace {

// Operations that push inline operations that push inline operations end on a worker some time.
constexpr uint32_t kMaxInlineDepth = 16;

// Launching takes little time, but for copies, which may block until pageable memory is free.
bool runs_inline(const Block& block) noexcept {
  if ((block.flags & MX_PUSH_INLINE) != 0) return true;
  return block.stream != nullptr && block.run != nullptr &&
         (block.flags & MX_PUSH_PYTHON) == 0 && block.stream->lane == 0;
}

void report_part(void* profile, const mx_engine_event* part) {
  static_cast<Profile*>(profile)->report_part(*part);
}

}  // namespace

// The linearisation point of a push: every place is taken while every variable is locked.
bool Scheduler::enqueue(Block* block, const LockOrder& order, mx_failure** failure) {
  Bulk& bulk = Bulk::of_this_thread();
  if (bulk.open() && !naive_) bulk.join(this, block);
  const bool in_bulk = block->bulk != 0;
  const bool wait_for_turn = naive_ && !Frame::any();
  Waiter turn;
  if (wait_for_turn) block->pusher = &turn;
  if (!order.lock()) return false;
  if (monitor_ != nullptr) monitor_->pushed(block);
  if (block->stream != nullptr && block->stream->notes()) block->stream->note(*block);
  uint32_t queued = 0;
  for (uint32_t i = 0; i < block->n_entries; ++i) {
    Entry& entry = block->entries[i];
    variables_.use(entry.variable);
    if (!entry.variable->append(&entry)) ++queued;
  }
  block->ungranted.store(queued, std::memory_order_relaxed);
  order.unlock();

  if (queued > 0) {
    // The block may be running already, or gone.  A naive push waits for its turn; inside an
    // operation it must not: the operation itself may be what it would wait for.
    if (!wait_for_turn) {
      if (in_bulk) bulk.count();
      return true;
    }
    turn.wait();
  }
  if (naive_) {
    block->pusher = nullptr;
    run_naively(block, failure);
    return true;
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
  return true;
}

void Scheduler::run_naively(Block* block, mx_failure** failure) {
  Waiter done;
  const bool asynchronous = block->run_async != nullptr;
  if (asynchronous) block->completion = &done;
  block->report = failure;
  ReadyList ready;
  execute(block, 0, ready);
  if (asynchronous) done.wait();
  dispatch(ready);
}

void Scheduler::run(Block* block, uint32_t worker) {
  thread_local int applied = 0, own = 0;  // what this thread was told, and what the runtime had told it
  if (const int threads = omp_threads(); threads != applied) {
    if (applied == 0) own = openmp_threads();
    set_openmp_threads(threads != 0 ? threads : own);
    applied = threads;
  }
  if (block->bulk != 0) {
    run_bulk(block, worker);
    return;
  }
  ReadyList ready;
  execute(block, worker, ready);
  if (!ready.empty()) dispatch(ready);
}

void Scheduler::execute(Block* block, uint32_t worker, ReadyList& ready) {
  if (block->pushed != 0) {
    block->started = now_ns();
    block->thread = thread_number();
  }
  if (block->stream != nullptr && !naive_) {
    if (completion_.begin_on_device(block)) {
      run_body(block, worker, ready);
    } else {
      completion_.on_launched(block, {}, ready);
    }
    return;
  }
  if (Poison* poison = completion_.reason_to_skip(*block)) {
    completion_.finish(block, {}, poison, ready);
    return;
  }
  run_body(block, worker, ready);
}

void Scheduler::run_body(Block* block, uint32_t worker, ReadyList& ready) {
  const mx_run_context context{sizeof(mx_run_context), worker, block->context,
                               block->stream == nullptr ? nullptr : block->stream->handle,
                               block->pushed == 0 ? nullptr : &report_part, &profile_, 0};
  if (block->run_async != nullptr) {
    block->unfinished_parts.store(2, std::memory_order_relaxed);
    block->forks = Frame::forks();
    {
      const Frame frame(block, this);
      block->run_async(block->argument, &context, reinterpret_cast<mx_completion*>(block));
    }
    if (block->unfinished_parts.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      completion_.conclude(block, FailureRef(block->async_failure), ready);
    }
    return;
  }
  FailureRef failure;
  try {
    const Frame frame(block, this);
    failure = FailureRef(block->run(block->argument, &context));
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being ended; swallowing that would end the process
  } catch (const std::exception& e) {
    failure = FailureRef(make_failure(MX_ERROR, e.what()));
  } catch (...) {
    failure = FailureRef(make_failure(MX_ERROR, "unknown C++ exception"));
  }
  completion_.conclude(block, std::move(failure), ready);
}

// Sends every block where it belongs.  Blocks that belong to one pool and became ready together
// are handed over together.
void Scheduler::dispatch(ReadyList ready) {
  WorkerPool* pool = nullptr;
  ReadyList batch;
  const auto flush = [&] {
    if (batch.empty()) return;
    if (!pool->submit(std::exchange(batch, ReadyList()))) take_stranded(*pool, ready);
  };
  for (;;) {
    Block* block = ready.pop();
    if (block == nullptr) {
      flush();
      if (ready.empty()) return;
      continue;
    }
    if (block->kind == BlockKind::wait) {
      static_cast<VariableWait*>(block->argument)->waiter.signal();
    } else if (block->kind == BlockKind::deletion) {
      variables_.execute_deletion(block);
    } else if (block->pusher != nullptr) {
      block->pusher->signal();
    } else if (naive_) {
      execute(block, 0, ready);
    } else {
      WorkerPool* destination = pools_.find(*block);
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

void Scheduler::take_stranded(WorkerPool& pool, ReadyList& ready) {
  while (Block* block = pool.take()) {
    if (abandoned_.load(std::memory_order_acquire)) {
      drop(block, ready);
    } else {
      execute(block, 0, ready);
    }
  }
}

// With it goes the rest of its bulk.
void Scheduler::drop(Block* block, ReadyList& ready) noexcept {
  Block* rest = std::exchange(block->rest, nullptr);
  if (!completion_.drop(block, ready)) return;
  while (rest != nullptr) completion_.drop(std::exchange(rest, rest->next), ready);
}

void Scheduler::complete(Block* block, mx_failure* failure) {
  // Once the operation no longer counts as pending, only this keeps the engine from being freed.
  begin_hand_over();
  ReadyList ready;
  completion_.complete(block, failure, ready);
  dispatch(ready);
  end_hand_over();
}

void Scheduler::token_reached(InFlight* in_flight, mx_failure* failure) noexcept {
  ReadyList ready;
  completion_.token_reached(in_flight, failure, ready);
  if (!ready.empty()) dispatch(ready);
}

int32_t Scheduler::find_stream(const mx_context& context, const mx_operation& operation,
                            Stream** stream, mx_error* error) noexcept {
  mx_error cause{};
  *stream = devices_.find(context, operation.property, &cause);
  if (*stream != nullptr) return MX_OK;
  return refused(operation.name, error, static_cast<mx_status>(cause.code), cause.message);
}

int32_t Scheduler::keep_order(const mx_context& context, bool on, bool notes, mx_error* error) noexcept {
  mx_error cause{};
  Stream* stream = devices_.find(context, MX_FN_NORMAL, &cause);
  if (stream == nullptr) return set_error(error, static_cast<mx_status>(cause.code), cause.message);
  if (notes) {
    std::vector<Variable*> former;
    stream->take_noted(former);
    variables_.forget(former);
  }
  stream->keep_order(on, notes);
  return MX_OK;
}

int32_t Scheduler::join_noted(const mx_context& context, List with, List apart, Variable** joint,
                              mx_error* error) noexcept {
  mx_error cause{};
  Stream* stream = devices_.find(context, MX_FN_NORMAL, &cause);
  if (stream == nullptr) return set_error(error, static_cast<mx_status>(cause.code), cause.message);
  std::vector<Variable*> noted;
  int32_t status = MX_ERROR_MEMORY;
  const bool whole = stream->take_noted(noted);
  try {
    std::vector<Variable*> all(with.variables, with.variables + with.n);
    const std::vector<Variable*> others = wholes_of(apart.variables, apart.n);
    std::copy_if(noted.begin(), noted.end(), std::back_inserter(all), [&others](Variable* variable) {
      return Variables::exists(variable) &&
             !std::binary_search(others.begin(), others.end(), whole_of(variable), std::less<>());
    });
    if (whole) status = variables_.join(all.data(), static_cast<uint32_t>(all.size()), joint, error);
  } catch (const std::bad_alloc&) {
  }
  if (status == MX_TIMEOUT) stream->give_back_noted(noted);
  variables_.forget(noted);
  return status == MX_ERROR_MEMORY ? set_error(error, MX_ERROR_MEMORY, "[join_noted] out of host memory") : status;
}

bool Scheduler::on_own_thread() noexcept {
  return WorkerPool::current() != nullptr || Stream::watching() || Frame::any();
}

bool Scheduler::stop(std::chrono::steady_clock::time_point when) noexcept {
  const bool pools = pools_.stop(when);
  return devices_.stop(when) && pools;
}

void Scheduler::abandon() noexcept {
  abandoned_.store(true, std::memory_order_release);
  pools_.abandon();
  devices_.abandon();
  Bulk::flush_all(this);
  ReadyList ready;
  pools_.each([&](WorkerPool& pool) { take_stranded(pool, ready); });
  dispatch(ready);
}

std::vector<Running> Scheduler::running() {
  std::vector<Running> found;
  pools_.running(found);
  devices_.running(found);
  return found;
}

int Scheduler::set_workers(int n) noexcept {
  if (!naive_) pools_.set_compute_threads(std::clamp(n, 1, 1024));
  return workers();
}

void Scheduler::lock_for_fork() noexcept {
  pools_.lock_for_fork();
  devices_.lock_for_fork();
}

void Scheduler::unlock_after_fork(bool child) noexcept {
  if (child) {
    visitors_.store(0, std::memory_order_relaxed);
    waiting_.store(0, std::memory_order_relaxed);
  }
  devices_.unlock_after_fork(child);
  pools_.unlock_after_fork(child);
}

}  // namespace mx::engine
