// SPDX-License-Identifier: Apache-2.0
#include "small_pool.hpp"

#include <algorithm>

#include "system_memory.hpp"
#include "thread_values.hpp"

namespace mx::storage {
namespace {

constexpr uint64_t kCacheLimit = uint64_t{8} << 20;  // bytes a thread may keep

// Blocks of a class a thread may keep: 256 KiB worth, at least 2, at most 64.
uint32_t capacity(uint32_t index) noexcept {
  return static_cast<uint32_t>(std::clamp<size_t>((size_t{256} << 10) / class_bytes(index), 2, 64));
}

}  // namespace

void ThreadCache::thread_ended() noexcept {
  const std::lock_guard lock(registry_mutex());
  if (pool != nullptr) pool->retire(*this);
}

SmallPool::SmallPool() : id_(next_owner()) { enlist(this); }

SmallPool::~SmallPool() {
  release();
  delist(this);
  const std::lock_guard lock(registry_mutex());
  for (const auto& cache : caches_) cache->pool = nullptr;
}

ThreadCache* SmallPool::cache() noexcept {
  return ThreadValues<ThreadCache>::find(id_, [this] {
    auto cache = std::make_shared<ThreadCache>();
    const std::lock_guard lock(registry_mutex());
    caches_.push_back(cache);
    cache->pool = this;
    return cache;
  });
}

void* SmallPool::take(size_t bytes) noexcept {
  const uint32_t index = class_of(bytes);
  ThreadCache* mine = cache();
  if (mine == nullptr) {
    const std::lock_guard lock(mutex_);
    ++visits_;
    ++allocations_;
    if (central_[index].empty()) return nullptr;
    ++hits_;
    central_bytes_ -= class_bytes(index);
    return central_[index].pop();
  }
  const std::lock_guard lock(mine->flag);
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
    const std::lock_guard lock(mutex_);
    ++visits_;
    central_bytes_ += class_bytes(index);
    central_[index].push(data);
    return;
  }
  const std::lock_guard lock(mine->flag);
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
  const std::lock_guard lock(mutex_);
  ++visits_;
  const uint64_t moved = central_[index].move_to(mine.lists[index], (capacity(index) + 1) / 2);
  central_bytes_ -= moved * class_bytes(index);
  mine.bytes += moved * class_bytes(index);
  return moved != 0;
}

void SmallPool::flush(ThreadCache& mine, uint32_t index, uint32_t n) noexcept {
  const std::lock_guard lock(mutex_);
  ++visits_;
  const uint64_t moved = mine.lists[index].move_to(central_[index], n);
  central_bytes_ += moved * class_bytes(index);
  mine.bytes -= moved * class_bytes(index);
}

void SmallPool::retire(ThreadCache& cache) noexcept {
  {
    const std::lock_guard flag(cache.flag);
    for (uint32_t i = 0; i < kClasses; ++i) flush(cache, i, cache.lists[i].count());
    const std::lock_guard lock(mutex_);
    allocations_ += cache.allocations;
    hits_ += cache.hits;
  }
  cache.pool = nullptr;
  caches_.erase(std::remove_if(caches_.begin(), caches_.end(),
                               [&](const auto& c) { return c.get() == &cache; }),
                caches_.end());
}

void SmallPool::release() noexcept {
  const std::lock_guard registry(registry_mutex());
  for (const auto& cache : caches_) {
    const std::lock_guard flag(cache->flag);
    for (uint32_t i = 0; i < kClasses; ++i) flush(*cache, i, cache->lists[i].count());
  }
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < kClasses; ++i) {
    shrank(central_[i].count() * class_bytes(i));
    while (!central_[i].empty()) heap_free(central_[i].pop());
  }
  central_bytes_ = 0;
}

AllocatorCounts SmallPool::counts() noexcept {
  const std::lock_guard registry(registry_mutex());
  AllocatorCounts total;
  for (const auto& cache : caches_) {
    const std::lock_guard flag(cache->flag);
    total.pooled += cache->bytes;
    total.allocations += cache->allocations;
    total.hits += cache->hits;
  }
  const std::lock_guard lock(mutex_);
  total.pooled += central_bytes_;
  total.allocations += allocations_;
  total.hits += hits_;
  total.shared = visits_;
  return total;
}

// In this order, since a thread goes on to the central pool with its cache's flag in hand.
void SmallPool::lock_for_fork() noexcept {
  for (const auto& cache : caches_) cache->flag.lock();
  mutex_.lock();
}

void SmallPool::unlock_after_fork() noexcept {
  mutex_.unlock();
  for (const auto& cache : caches_) cache->flag.unlock();
}

}  // namespace mx::storage
