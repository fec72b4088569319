// SPDX-License-Identifier: Apache-2.0
#include "large_pool.hpp"

#include <algorithm>

#include "system_memory.hpp"
#include "thread_values.hpp"

namespace mx::storage {

void* LargeCache::take(size_t pages) noexcept {
  const FlagGuard lock(flag_);
  for (uint32_t i = count_; i-- > 0;) {
    if (blocks_[i].pages != pages) continue;
    void* data = blocks_[i].data;
    std::copy(blocks_ + i + 1, blocks_ + count_, blocks_ + i);
    --count_;
    ++hits_;
    return data;
  }
  return nullptr;
}

uint32_t LargeCache::put(Block block, Block* others) noexcept {
  const FlagGuard lock(flag_);
  const uint32_t moved = count_ == kBlocks ? move(kBlocks / 2, others) : 0;
  blocks_[count_++] = block;
  return moved;
}

uint32_t LargeCache::empty(Block* blocks) noexcept {
  const FlagGuard lock(flag_);
  return move(count_, blocks);
}

uint32_t LargeCache::move(uint32_t n, Block* to) noexcept {
  std::copy(blocks_, blocks_ + n, to);
  std::copy(blocks_ + n, blocks_ + count_, blocks_);
  count_ -= n;
  return n;
}

uint64_t LargeCache::hits() noexcept {
  const FlagGuard lock(flag_);
  return hits_;
}

LargePool::LargePool() : number_(next_owner()) {}

LargePool::~LargePool() { shrink(0); }

LargeCache* LargePool::cache() noexcept {
  return ThreadValues<LargeCache>::find(number_, [this] {
    {
      const Guard lock(mutex_);
      for (const auto& cache : caches_) {
        if (cache->claim()) return cache;
      }
    }
    auto made = std::make_shared<LargeCache>();  // takes the registry, which comes before the pool's lock
    const Guard lock(mutex_);
    caches_.push_back(made);
    return made;
  });
}

void* LargePool::alloc(size_t bytes, uint64_t others) noexcept {
  const size_t pages = whole_pages(bytes);
  LargeCache* mine = cache();
  if (mine != nullptr) {
    if (void* data = mine->take(pages)) return data;
  }
  const Guard lock(mutex_);
  ++visits_;
  ++allocations_;
  void* data = take_free(pages);
  if (data == nullptr) {
    gather();
    data = take_free(pages);
  }
  if (data != nullptr) {
    ++hits_;
    return data;
  }
  const uint64_t wanted = others + pages;
  shrink_locked(bound() > wanted ? bound() - wanted : 0);
  data = map_pages(pages);
  if (data == nullptr) return nullptr;
  try {
    sizes_.emplace(data, pages);
  } catch (...) {
    unmap_pages(data, pages);
    return nullptr;
  }
  footprint_ += pages;
  return data;
}

// Brings what the threads keep back into the pool.
void LargePool::gather() noexcept {
  LargeCache::Block blocks[LargeCache::kBlocks];
  for (const auto& cache : caches_) {
    const uint32_t n = cache->empty(blocks);
    for (uint32_t i = 0; i < n; ++i) {
      if (!keep(blocks[i].data)) unmap(blocks[i].data);
    }
  }
}

void* LargePool::take_free(size_t pages) noexcept {
  const auto found = free_.lower_bound({pages, 0});
  if (found == free_.end() || found->first.first > pages + pages / 8) return nullptr;
  void* data = found->second;
  pooled_ -= found->first.first;
  by_age_.erase(~found->first.second);
  free_.erase(found);
  return data;
}

void LargePool::free(void* data, size_t bytes) noexcept {
  LargeCache::Block older[LargeCache::kBlocks];
  uint32_t n = 1;
  if (LargeCache* mine = cache()) {
    n = mine->put({data, whole_pages(bytes)}, older);
  } else {
    older[0].data = data;
  }
  if (n == 0) return;
  const Guard lock(mutex_);
  ++visits_;
  for (uint32_t i = 0; i < n; ++i) {
    if (!keep(older[i].data)) unmap(older[i].data);
  }
}

// False where there is no memory to remember it by.
bool LargePool::keep(void* data) noexcept {
  const size_t pages = sizes_.at(data);
  const uint64_t age = ++clock_;
  try {
    by_age_.emplace(age, FreeKey{pages, ~age});
    free_.emplace(FreeKey{pages, ~age}, data);
    pooled_ += pages;
    return true;
  } catch (...) {
    by_age_.erase(age);
    return false;
  }
}

void LargePool::unmap(void* data) noexcept {
  const auto found = sizes_.find(data);
  footprint_ -= found->second;
  shared_.forget(data);
  unmap_pages(data, found->second);
  sizes_.erase(found);
}

void LargePool::direct_free(void* data) noexcept {
  const Guard lock(mutex_);
  ++visits_;
  unmap(data);
}

void LargePool::shrink(uint64_t footprint) noexcept {
  const Guard lock(mutex_);
  ++visits_;
  if (footprint_ > footprint) gather();
  shrink_locked(footprint);
}

void LargePool::shrink_locked(uint64_t footprint) noexcept {
  while (footprint_ > footprint && !by_age_.empty()) {
    const auto oldest = by_age_.begin();
    const auto block = free_.find(oldest->second);
    const size_t pages = block->first.first;
    shared_.forget(block->second);
    unmap_pages(block->second, pages);
    sizes_.erase(block->second);
    free_.erase(block);
    by_age_.erase(oldest);
    footprint_ -= pages;
    pooled_ -= pages;
  }
}

int64_t LargePool::share(void* data) noexcept {
  size_t pages = 0;
  {
    const Guard lock(mutex_);
    const auto found = sizes_.find(data);
    if (found == sizes_.end()) return -1;
    pages = found->second;
  }
  return shared_.share(data, pages);  // the block is the caller's: it stays
}

uint64_t LargePool::footprint() noexcept {
  const Guard lock(mutex_);
  return footprint_;
}

AllocatorCounts LargePool::counts() noexcept {
  const Guard lock(mutex_);
  gather();
  AllocatorCounts counts{pooled_, allocations_, hits_, visits_};
  for (const auto& cache : caches_) {
    const uint64_t hits = cache->hits();
    counts.allocations += hits;
    counts.hits += hits;
  }
  return counts;
}

}  // namespace mx::storage
