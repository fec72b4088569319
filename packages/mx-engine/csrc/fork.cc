// SPDX-License-Identifier: Apache-2.0
//
// Forks: a child has only the thread that forked.  It finds every lock free, no thread, and refuses
// by name what would wait for operations that are the parent's.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <vector>

#include "bulk.h"
#include "engine.h"
#include "frame.h"

namespace mx::engine {
namespace {

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

void Engine::before_fork() noexcept {
  registry().mutex.lock();
  for (Engine* engine : registry().engines) engine->lock_for_fork();
  Bulk::lock_for_fork();
  lock_block_pool();
}

void Engine::after_fork(bool child) noexcept {
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

// The handlers below run inside fork() itself, on the forking thread: they see to it that the
// child finds every lock free and no memory of threads it does not have.
void Engine::lock_for_fork() noexcept {
  pools_.lock_for_fork();
  devices_.lock_for_fork();
  failures_.lock();
  if (monitor_ != nullptr) monitor_->lock();
  admission_.lock_for_fork();
  kept_mutex_.lock();
}

void Engine::unlock_after_fork(bool child) noexcept {
  if (child) {
    // What was pending is lost with its threads, but for the operations this thread is inside of.
    if (admission_.pending() > Frame::depth()) ++lost_forks_;
    visitors_.store(0, std::memory_order_relaxed);
    waiting_.store(0, std::memory_order_relaxed);
    // The sink and the threads that may have been calling it are the parent's.
    new (&profile_) Profile;
  }
  kept_mutex_.unlock();
  admission_.unlock_after_fork(child, Frame::depth());
  if (monitor_ != nullptr) {
    if (child) monitor_->forget();
    monitor_->unlock();
  }
  failures_.unlock();
  devices_.unlock_after_fork(child);
  pools_.unlock_after_fork(child);
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

}  // namespace mx::engine
