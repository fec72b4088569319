// SPDX-License-Identifier: Apache-2.0
#include "registry.h"

#include <pthread.h>

#include <algorithm>
#include <vector>

#include "small_pool.h"

namespace mx::storage {
namespace {

struct Pools {
  std::mutex mutex;
  std::vector<SmallPool*> small;
  std::vector<std::mutex*> locks;
};

Pools& pools() noexcept {
  static auto* the_pools = new Pools;  // threads may end after static destruction
  return *the_pools;
}

// A child must not inherit a lock that a thread it does not have was holding.
void before_fork() {
  pools().mutex.lock();
  for (SmallPool* pool : pools().small) pool->lock_for_fork();
  for (std::mutex* lock : pools().locks) lock->lock();
}

void after_fork(bool child) {
  for (std::mutex* lock : pools().locks) lock->unlock();
  for (SmallPool* pool : pools().small) pool->unlock_after_fork(child);
  pools().mutex.unlock();
}

[[maybe_unused]] const int installed = ::pthread_atfork(
    before_fork, [] { after_fork(false); }, [] { after_fork(true); });

template <class T>
void remove(std::vector<T*>& list, T* pool) noexcept {
  list.erase(std::remove(list.begin(), list.end(), pool), list.end());
}

}  // namespace

std::mutex& registry_mutex() noexcept { return pools().mutex; }
void enlist(SmallPool* pool) { pools().small.push_back(pool); }
void enlist(std::mutex* lock) { pools().locks.push_back(lock); }
void delist(SmallPool* pool) noexcept { remove(pools().small, pool); }
void delist(std::mutex* lock) noexcept { remove(pools().locks, lock); }

}  // namespace mx::storage
