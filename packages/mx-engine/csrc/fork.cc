// SPDX-License-Identifier: Apache-2.0
//
// Forks: a child has only the thread that forked.  It finds every lock free, no thread, and refuses
// by name what would wait for operations that are the parent's.
#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "bulk.hpp"
#include "frame.hpp"
#include "lifecycle.hpp"

namespace mx::engine {
namespace {

// The engines of the process, for the handlers of fork().
struct Registry {
  std::mutex mutex;
  std::vector<Lifecycle*> engines;  // guarded by mutex
};

Registry& registry() {
  static auto* registry = new Registry;  // leaked: engines may outlive static destruction
  return *registry;
}

}  // namespace

void Lifecycle::before_fork() noexcept {
  registry().mutex.lock();
  for (Lifecycle* engine : registry().engines) engine->lock_for_fork();
  Bulk::lock_for_fork();
  lock_block_pool();
}

void Lifecycle::after_fork(bool child) noexcept {
  if (child) {
    Frame::begin_child();
    ForkLock::begin_child();
  }
  unlock_block_pool();
  Bulk::unlock_after_fork(child);
  for (Lifecycle* engine : registry().engines) engine->unlock_after_fork(child);
  registry().mutex.unlock();
}

void Lifecycle::enlist() {
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  static const int installed = pthread_atfork([] { before_fork(); }, [] { after_fork(false); },
                                              [] { after_fork(true); });
  if (installed != 0) throw std::bad_alloc();
  all.engines.push_back(this);
}

void Lifecycle::delist() noexcept {
  Registry& all = registry();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.engines.erase(std::find(all.engines.begin(), all.engines.end(), this));
}

bool Lifecycle::all_quiet() noexcept {
  const std::unique_lock<std::mutex> lock(registry().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  for (Lifecycle* engine : registry().engines) {
    if (engine->admission_.is_shut_down() && engine->scheduler_.computing()) return false;
  }
  return true;
}

// The handlers below run inside fork() itself, on the forking thread: they see to it that the
// child finds every lock free and no memory of threads it does not have.
void Lifecycle::lock_for_fork() noexcept {
  scheduler_.lock_for_fork();
  completion_.lock_for_fork();
  if (monitor_ != nullptr) monitor_->lock();
  admission_.lock_for_fork();
  kept_mutex_.lock();
}

void Lifecycle::unlock_after_fork(bool child) noexcept {
  const uint32_t inside = Frame::depth(&scheduler_);
  if (child) {
    // What was pending is lost with its threads, but for the operations this thread is inside of.
    if (admission_.pending() > inside) variables_.lose_pending();
    // The sink and the threads that may have been calling it are the parent's.
    new (&profile_) Profile;
  }
  kept_mutex_.unlock();
  admission_.unlock_after_fork(child, inside);
  if (monitor_ != nullptr) {
    if (child) monitor_->forget();
    monitor_->unlock();
  }
  completion_.unlock_after_fork();
  scheduler_.unlock_after_fork(child);
}

}  // namespace mx::engine
