// SPDX-License-Identifier: Apache-2.0
//
// Stop, shut-down, fork, the end of an engine.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <vector>

#include "bulk.h"
#include "engine.h"
#include "frame.h"
#include "intern.h"

namespace mx::engine {

namespace {

// Engines that were shut down with work pending: threads may still be inside them, so they go with
// the process.  Kept reachable for leak checkers.
struct Abandoned {
  Engine* engine;
  Abandoned* next;
};
std::atomic<Abandoned*> abandoned{nullptr};

void abandon(Engine* engine) noexcept {
  auto* entry = new (std::nothrow) Abandoned{engine, nullptr};
  if (entry == nullptr) return;
  entry->next = abandoned.load(std::memory_order_relaxed);
  while (!abandoned.compare_exchange_weak(entry->next, entry, std::memory_order_release)) {
  }
}

// The engines of the process, for the handlers of fork().
struct Registry {
  std::mutex mutex;
  std::vector<Engine*> engines;  // guarded by mutex
};

Registry& registry() {
  static auto* registry = new Registry;  // leaked: engines may outlive static destruction
  return *registry;
}

}  // namespace

bool Engine::on_own_thread() noexcept {
  return WorkerPool::current() != nullptr || Stream::watching() || Frame::any();
}

void Engine::before_fork() noexcept {
  registry().mutex.lock();
  for (Engine* engine : registry().engines) engine->lock_for_fork();
  Bulk::lock_for_fork();
  lock_block_pool();
  lock_interned();
}

void Engine::after_fork(bool child) noexcept {
  unlock_interned();
  unlock_block_pool();
  Bulk::unlock_after_fork(child);
  for (Engine* engine : registry().engines) engine->unlock_after_fork(child);
  registry().mutex.unlock();
}

void Engine::enlist() {
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  static const int installed = pthread_atfork([] { before_fork(); }, [] { after_fork(false); },
                                              [] { after_fork(true); });
  if (installed != 0) throw std::bad_alloc();
  all.engines.push_back(this);
}

void Engine::delist() noexcept {
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.engines.erase(std::find(all.engines.begin(), all.engines.end(), this));
}

void Engine::release(bool blocks) noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (state_.load(std::memory_order_acquire) == shut_down && pending() != 0) {
    abandon(this);
    return;
  }
  if (blocks && !on_own_thread()) {
    destroy();
    return;
  }
  try {  // a thread cannot wait for itself
    std::thread([this] { destroy(); }).detach();
  } catch (...) {
    abandon(this);
  }
}

void Engine::destroy() noexcept {
  drain(-1);
  lanes_.stop(deadline(-1));
  devices_.stop(deadline(-1));
  while (visitors_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  delist();
  for (const Kept& kept : kept_) kept.release(kept.object);
  engine::release(cancellation());
  delete this;
}

bool Engine::stop(int64_t timeout_ns) noexcept {
  if (on_own_thread() || state_.load(std::memory_order_acquire) == shut_down) return false;
  const auto end = deadline(timeout_ns);
  if (!drain(timeout_ns)) return false;
  const bool lanes = lanes_.stop(end);
  return devices_.stop(end) && lanes;
}

std::vector<Running> Engine::running() {
  std::vector<Running> found;
  lanes_.running(found);
  devices_.running(found);
  return found;
}

void Engine::notify_shutdown() noexcept {
  state_.store(shut_down, std::memory_order_seq_cst);
  lanes_.abandon();
  devices_.abandon();
}

bool Engine::close(int64_t timeout_ns) noexcept {
  const auto end = deadline(timeout_ns);
  for (int expected = accepting; !state_.compare_exchange_strong(expected, closing);
       expected = accepting) {
    if (expected != forking) break;  // closed before
    if (std::chrono::steady_clock::now() >= end) return false;
    sleep();
  }
  const auto left = end - std::chrono::steady_clock::now();
  return drain(std::max<int64_t>(0, std::chrono::nanoseconds(left).count()));
}

void Engine::cancel(const char* why) noexcept {
  auto* poison = new (std::nothrow) Poison(FailureRef(make_failure(MX_ERROR_SHUTDOWN, why)));
  Poison* none = nullptr;
  if (!cancellation_.compare_exchange_strong(none, poison, std::memory_order_acq_rel)) engine::release(poison);
}

int Engine::set_workers(int n) noexcept {
  if (options_.naive) return 0;
  lanes_.set_compute_threads(std::clamp(n, 1, 1024));
  return workers();
}

bool Engine::try_close_for_fork(bool force) noexcept {
  int before = accepting;
  while (!state_.compare_exchange_weak(before, forking, std::memory_order_seq_cst)) {
    if (before == shut_down) return true;
    if (before == forking) return false;
  }
  state_before_fork_ = before;
  forking_thread_.store(std::this_thread::get_id(), std::memory_order_release);
  const bool quiet = pending_.load(std::memory_order_seq_cst) == 0;
  if (!quiet && !force) open_after_fork();
  return quiet || force;
}

void Engine::open_after_fork() noexcept {
  forking_thread_.store({}, std::memory_order_release);
  int expected = forking;
  state_.compare_exchange_strong(expected, state_before_fork_, std::memory_order_seq_cst);
}

// Whether the variable waits for operations that a parent had pending at a fork, and will for ever; its lock is held.
bool Engine::lost(const Variable* variable, bool for_write) const noexcept {
  return variable->forks != lost_forks_ && !variable->idle(for_write) && Frame::holder(variable) == nullptr;
}

int32_t Engine::check_lost(const mx_operation& operation, mx_error* error) noexcept {
  bool any = false;
  const auto look = [&](Variable* const* variables, uint32_t n, bool for_write) {
    for (uint32_t i = 0; i < n && !any; ++i) {
      const std::lock_guard<SpinLock> lock(variables[i]->lock);
      any = lost(variables[i], for_write);
    }
  };
  look(operation.reads, operation.n_reads, false);
  look(operation.writes, operation.n_writes, true);
  if (!any) return MX_OK;
  return refused(operation.name, error, MX_ERROR,
                 "a variable of it was used by operations that were pending in the parent when the process was "
                 "forked, and do not exist here; use a new variable");
}

// The handlers below run inside fork() itself, on the forking thread: they see to it that the
// child finds every lock free and no memory of threads it does not have.
void Engine::lock_for_fork() noexcept {
  lanes_.lock_for_fork();
  devices_.lock_for_fork();
  failures_.lock();
  if (monitor_ != nullptr) monitor_->lock();
  quiet_mutex_.lock();
}

void Engine::unlock_after_fork(bool child) noexcept {
  if (child) {
    // What was pending is lost with its threads, but for the operations this thread is inside of.
    if (pending_.load() > Frame::depth()) ++lost_forks_;
    pending_.store(Frame::depth(), std::memory_order_seq_cst);
    quiet_waiters_.store(0, std::memory_order_seq_cst);
    visitors_.store(0, std::memory_order_relaxed);
    waiting_.store(0, std::memory_order_relaxed);
    // The sink and the threads that may have been calling it are the parent's.
    new (&profile_) Profile;
  }
  quiet_mutex_.unlock();
  if (monitor_ != nullptr) {
    if (child) monitor_->forget();
    monitor_->unlock();
  }
  failures_.unlock();
  devices_.unlock_after_fork(child);
  lanes_.unlock_after_fork(child);
}

}  // namespace mx::engine
