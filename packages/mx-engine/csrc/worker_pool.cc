// SPDX-License-Identifier: Apache-2.0
#include "worker_pool.hpp"

#include <algorithm>

#include "frame.hpp"

namespace mx::engine {
namespace {

thread_local Worker* current_worker = nullptr;

}  // namespace

Worker* WorkerPool::current() noexcept { return current_worker; }

bool WorkerPool::submit(ReadyList blocks) noexcept {
  lock_.lock();
  while (Block* block = blocks.pop()) {
    ((block->flags & MX_PUSH_PARALLEL) != 0 ? parallel_ : general_).push(block, sequence_++);
  }
  queued_.store(general_.size() + parallel_.size(), std::memory_order_relaxed);
  const bool alone = threads_ == 0, abandoned = abandoned_;
  const Action action = next_action();
  lock_.unlock();
  return (act(action) || !alone) && !abandoned;
}

Block* WorkerPool::take() noexcept {
  lock_.lock();
  Block* block = general_.empty() ? parallel_.pop() : general_.pop();
  queued_.store(general_.size() + parallel_.size(), std::memory_order_relaxed);
  lock_.unlock();
  return block;
}

// What the worker is to run next; the lock is held.
Block* WorkerPool::pop(Worker* worker) noexcept {
  Block* general = general_.peek();
  Block* parallel = team_is_free() || parallel_worker_ == worker ? parallel_.peek() : nullptr;
  Block* block = nullptr;
  if (parallel != nullptr && (general == nullptr || TaskQueue::before(parallel, general))) {
    parallel_worker_ = worker;
    parallel_worker_away_ = false;
    block = parallel_.pop();
  } else if (general != nullptr) {
    block = general_.pop();
    // A small operation is over before another thread would have taken the role.
    if (worker == parallel_worker_) parallel_worker_away_ = (block->flags & MX_PUSH_INLINE) == 0;
  } else {
    return nullptr;
  }
  queued_.store(general_.size() + parallel_.size(), std::memory_order_relaxed);
  return block;
}

// Who, if anybody, should come for what is queued; the lock is held.
WorkerPool::Action WorkerPool::next_action() noexcept {
  if (abandoned_ || (general_.empty() && parallel_.empty())) return {};
  if (!parallel_.empty() && parallel_worker_ != nullptr && remove_idle(parallel_worker_)) {
    return {parallel_worker_, false};
  }
  // For what only the parallel worker may run nobody else is woken; nor where it is that worker that
  // asks, between two operations: it looks for more at once.
  const bool returns = current_worker != nullptr && current_worker == parallel_worker_ && !Frame::any();
  if (searching_ || (general_.empty() && (!team_is_free() || returns))) return {};
  if (Worker* worker = pop_idle()) {
    searching_ = worker->woken_to_search = true;
    return {worker, false};
  }
  if (!stopping_ && threads_ - blocked_ < limit_) {
    ++threads_;
    searching_ = true;
    return {nullptr, true};
  }
  return {};
}

bool WorkerPool::act(Action action) noexcept {
  if (action.wake != nullptr) action.wake->wake.signal();
  return !action.create || create_thread();
}

// The thread is counted already, as the searching one.
bool WorkerPool::create_thread() noexcept {
  std::lock_guard<std::mutex> threads(threads_mutex_);
  try {
    join_ended();
    workers_.reserve(workers_.size() + 1);
    auto worker = std::make_unique<Worker>(this);
    worker->number = ++last_number_;
    worker->woken_to_search = true;
    worker->thread = std::thread([this, raw = worker.get()] { main(raw); });
    workers_.push_back(std::move(worker));
    return true;
  } catch (...) {  // no memory or no more threads: those that exist do the work
    lock_.lock();
    --threads_;
    searching_ = false;
    lock_.unlock();
    return false;
  }
}

// threads_mutex_ is held.
void WorkerPool::join_ended() {
  auto ended = [](std::unique_ptr<Worker>& worker) {
    if (!worker->ended.load(std::memory_order_acquire)) return false;
    worker->thread.join();
    return true;
  };
  workers_.erase(std::remove_if(workers_.begin(), workers_.end(), ended), workers_.end());
}

void WorkerPool::running(std::vector<Running>& found) {
  std::lock_guard<std::mutex> threads(threads_mutex_);
  for (const auto& worker : workers_) {
    if (!worker->busy.load(std::memory_order_acquire)) continue;
    found.push_back({worker->name.load(std::memory_order_relaxed),
                     worker->origin.load(std::memory_order_relaxed)});
  }
}

bool WorkerPool::busy() noexcept {
  const std::unique_lock<std::mutex> threads(threads_mutex_, std::try_to_lock);
  if (!threads.owns_lock()) return true;
  const auto runs = [](const auto& worker) { return worker->busy.load(std::memory_order_acquire); };
  return std::any_of(workers_.begin(), workers_.end(), runs);
}

void WorkerPool::main(Worker* worker) {
  current_worker = worker;
  bool searched = false;
  for (;;) {
    lock_.lock();
    if (worker->woken_to_search) worker->woken_to_search = searching_ = false;
    if (worker == parallel_worker_) parallel_worker_away_ = false;
    if (abandoned_ || threads_ - blocked_ > limit_) break;
    if (Block* block = pop(worker)) {
      const Action action = next_action();
      lock_.unlock();
      act(action);
      worker->name.store(block->name, std::memory_order_relaxed);
      worker->origin.store(block->origin, std::memory_order_relaxed);
      worker->busy.store(true, std::memory_order_release);
      runner_.run(block, worker->number);
      worker->busy.store(false, std::memory_order_release);
      searched = worker->fresh = false;
    } else if (stopping_) {
      break;
    } else if (!searching_ && !searched) {
      searching_ = worker->woken_to_search = true;
      lock_.unlock();
      search(worker);
      searched = worker->fresh = true;
    } else {
      worker->next_idle = idle_;
      idle_ = worker;
      lock_.unlock();
      worker->wake.wait();
      searched = false;
      worker->fresh = true;
    }
  }
  --threads_;
  if (parallel_worker_ == worker) parallel_worker_ = nullptr;
  const Action action = next_action();
  lock_.unlock();
  act(action);
  runner_.thread_ends();
  current_worker = nullptr;
  worker->ended.store(true, std::memory_order_release);
}

void WorkerPool::search(Worker* worker) noexcept {
  worker->spin.spin_until([this] { return queued_.load(std::memory_order_relaxed) != 0; });
}

// The last to fall asleep; the parallel worker only when there is no other.
Worker* WorkerPool::pop_idle() noexcept {
  Worker* worker = idle_;
  if (worker != nullptr && worker == parallel_worker_ && worker->next_idle != nullptr) {
    worker = worker->next_idle;
  }
  if (worker != nullptr) remove_idle(worker);
  return worker;
}

bool WorkerPool::remove_idle(Worker* worker) noexcept {
  for (Worker** at = &idle_; *at != nullptr; at = &(*at)->next_idle) {
    if (*at != worker) continue;
    *at = worker->next_idle;
    return true;
  }
  return false;
}

// The lock is held: the sleeping threads must not end before they are signalled.
void WorkerPool::wake_all() noexcept {
  while (Worker* worker = pop_idle()) worker->wake.signal();
}

bool WorkerPool::stop(std::chrono::steady_clock::time_point deadline) noexcept {
  lock_.lock();
  ++stopping_;
  wake_all();
  lock_.unlock();
  const bool stopped = poll_until(deadline, [this] {
    std::lock_guard<std::mutex> guard(threads_mutex_);
    join_ended();
    lock_.lock();
    const int threads = threads_;  // one may just be coming into being
    lock_.unlock();
    return threads == 0 && workers_.empty();
  });
  lock_.lock();
  --stopping_;
  const Action action = next_action();
  lock_.unlock();
  act(action);
  return stopped;
}

void WorkerPool::abandon() noexcept {
  lock_.lock();
  abandoned_ = true;
  wake_all();
  lock_.unlock();
}

void WorkerPool::set_limit(int limit) noexcept {
  lock_.lock();
  limit_ = limit;
  wake_all();  // those beyond the limit end
  lock_.unlock();
}

void WorkerPool::begin_blocking(Worker* worker) noexcept {
  lock_.lock();
  ++blocked_;
  if (parallel_worker_ == worker) parallel_worker_ = nullptr;
  const Action action = next_action();
  lock_.unlock();
  act(action);
}

void WorkerPool::end_blocking() noexcept {
  lock_.lock();
  --blocked_;
  lock_.unlock();
}

void WorkerPool::lock_for_fork() noexcept {
  threads_mutex_.lock();
  lock_.lock();
}

void WorkerPool::unlock_after_fork(bool child) noexcept {
  if (child) {
    for (auto& worker : workers_) worker.release();  // their threads do not exist here
    workers_.clear();
    general_ = parallel_ = TaskQueue();
    queued_.store(0, std::memory_order_relaxed);
    idle_ = parallel_worker_ = nullptr;
    threads_ = blocked_ = 0;
    parallel_worker_away_ = false;
    searching_ = false;
    stopping_ = 0;
  }
  lock_.unlock();
  threads_mutex_.unlock();
}

}  // namespace mx::engine
