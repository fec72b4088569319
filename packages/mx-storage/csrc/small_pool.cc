// SPDX-License-Identifier: Apache-2.0
#include "small_pool.h"

#include <algorithm>
#include <thread>

#include "registry.h"
#include "system_memory.h"

namespace mx::storage {
namespace {

constexpr uint64_t kCacheLimit = uint64_t{8} << 20;  // bytes a thread may keep

// Blocks of a class a thread may keep: 256 KiB worth, at least 2, at most 64.
uint32_t capacity(uint32_t index) noexcept {
  return static_cast<uint32_t>(std::clamp<size_t>((size_t{256} << 10) / class_bytes(index), 2, 64));
}

std::atomic<uint64_t> next_id{1};

using Guard = std::lock_guard<std::mutex>;

}  // namespace

void Flag::lock() noexcept {
  while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
}

// The caches of the calling thread, one per pool; gives their blocks back when the thread ends.
class ThreadCaches {
 public:
  ~ThreadCaches();
  ThreadCache* find(SmallPool* pool) noexcept;

 private:
  struct Owned {
    uint64_t pool_id;
    std::shared_ptr<ThreadCache> cache;
  };
  std::vector<Owned> owned_;
};

namespace {

// The last pool used.  Trivial, so that it can be read before and after the life of `caches`.
struct Recent {
  uint64_t pool_id;
  ThreadCache* cache;
  bool ended;
};
thread_local Recent recent{0, nullptr, false};
thread_local ThreadCaches caches;

}  // namespace

ThreadCaches::~ThreadCaches() {
  recent = {0, nullptr, true};
  const Guard lock(registry_mutex());
  for (const Owned& owned : owned_) {
    if (owned.cache->pool != nullptr) owned.cache->pool->retire(*owned.cache);
  }
}

ThreadCache* ThreadCaches::find(SmallPool* pool) noexcept {
  for (const Owned& owned : owned_) {
    if (owned.pool_id != pool->id_) continue;
    recent = {pool->id_, owned.cache.get(), false};
    return owned.cache.get();
  }
  try {
    auto cache = std::make_shared<ThreadCache>();
    const Guard lock(registry_mutex());
    owned_.erase(std::remove_if(owned_.begin(), owned_.end(),
                                [](const Owned& o) { return o.cache->pool == nullptr; }),
                 owned_.end());
    owned_.push_back({pool->id_, cache});
    try {
      pool->caches_.push_back(cache);
    } catch (...) {
      owned_.pop_back();
      throw;
    }
    cache->pool = pool;
    recent = {pool->id_, cache.get(), false};
    return cache.get();
  } catch (...) {
    return nullptr;  // the thread goes on without a cache
  }
}

SmallPool::SmallPool() : id_(next_id.fetch_add(1)) {
  const Guard lock(registry_mutex());
  enlist(this);
}

SmallPool::~SmallPool() {
  release();
  const Guard lock(registry_mutex());
  delist(this);
  for (const auto& cache : caches_) cache->pool = nullptr;
}

ThreadCache* SmallPool::cache() noexcept {
  if (recent.pool_id == id_) return recent.cache;
  return recent.ended ? nullptr : caches.find(this);
}

void* SmallPool::take(size_t bytes) noexcept {
  const uint32_t index = class_of(bytes);
  ThreadCache* mine = cache();
  if (mine == nullptr) {
    const Guard lock(mutex_);
    ++visits_;
    ++allocations_;
    if (central_[index].empty()) return nullptr;
    ++hits_;
    central_bytes_ -= class_bytes(index);
    return central_[index].pop();
  }
  const std::lock_guard<Flag> lock(mine->flag);
  ++mine->allocations;
  if (mine->lists[index].empty() && !refill(*mine, index)) return nullptr;
  ++mine->hits;
  mine->bytes -= class_bytes(index);
  return mine->lists[index].pop();
}

void SmallPool::put(void* data, size_t bytes) noexcept {
  const uint32_t index = class_of(bytes);
  ThreadCache* mine = cache();
  if (mine == nullptr) {
    const Guard lock(mutex_);
    ++visits_;
    central_bytes_ += class_bytes(index);
    central_[index].push(data);
    return;
  }
  const std::lock_guard<Flag> lock(mine->flag);
  mine->lists[index].push(data);
  mine->bytes += class_bytes(index);
  const uint32_t count = mine->lists[index].count();
  if (count > capacity(index)) {
    flush(*mine, index, count / 2);
  } else if (mine->bytes > kCacheLimit) {
    flush(*mine, index, count);
  }
}

bool SmallPool::refill(ThreadCache& mine, uint32_t index) noexcept {
  const Guard lock(mutex_);
  ++visits_;
  const uint64_t moved = central_[index].move_to(mine.lists[index], (capacity(index) + 1) / 2);
  central_bytes_ -= moved * class_bytes(index);
  mine.bytes += moved * class_bytes(index);
  return moved != 0;
}

void SmallPool::flush(ThreadCache& mine, uint32_t index, uint32_t n) noexcept {
  const Guard lock(mutex_);
  ++visits_;
  const uint64_t moved = mine.lists[index].move_to(central_[index], n);
  central_bytes_ += moved * class_bytes(index);
  mine.bytes -= moved * class_bytes(index);
}

void SmallPool::retire(ThreadCache& cache) noexcept {
  {
    const std::lock_guard<Flag> flag(cache.flag);
    for (uint32_t i = 0; i < kClasses; ++i) flush(cache, i, cache.lists[i].count());
    const Guard lock(mutex_);
    allocations_ += cache.allocations;
    hits_ += cache.hits;
  }
  cache.pool = nullptr;
  caches_.erase(std::remove_if(caches_.begin(), caches_.end(),
                               [&](const auto& c) { return c.get() == &cache; }),
                caches_.end());
}

void SmallPool::release() noexcept {
  const Guard registry(registry_mutex());
  for (const auto& cache : caches_) {
    const std::lock_guard<Flag> flag(cache->flag);
    for (uint32_t i = 0; i < kClasses; ++i) flush(*cache, i, cache->lists[i].count());
  }
  const Guard lock(mutex_);
  for (uint32_t i = 0; i < kClasses; ++i) {
    shrank(central_[i].count() * class_bytes(i));
    while (!central_[i].empty()) heap_free(central_[i].pop());
  }
  central_bytes_ = 0;
}

AllocatorCounts SmallPool::counts() noexcept {
  const Guard registry(registry_mutex());
  AllocatorCounts total;
  for (const auto& cache : caches_) {
    const std::lock_guard<Flag> flag(cache->flag);
    total.pooled += cache->bytes;
    total.allocations += cache->allocations;
    total.hits += cache->hits;
  }
  const Guard lock(mutex_);
  total.pooled += central_bytes_;
  total.allocations += allocations_;
  total.hits += hits_;
  total.shared = visits_;
  return total;
}

void SmallPool::unlock_after_fork(bool child) noexcept {
  mutex_.unlock();
  if (!child) return;
  for (const auto& cache : caches_) {
    if (recent.pool_id == id_ && recent.cache == cache.get()) continue;
    for (FreeList& list : cache->lists) list.forget();
    cache->bytes = 0;
    cache->flag.reset();
  }
}

}  // namespace mx::storage
