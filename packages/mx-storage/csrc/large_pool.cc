// SPDX-License-Identifier: Apache-2.0
#include "large_pool.h"

#include "registry.h"
#include "system_memory.h"

namespace mx::storage {
namespace {

using Guard = std::lock_guard<std::mutex>;

}  // namespace

LargePool::LargePool() {
  const Guard lock(registry_mutex());
  enlist(&mutex_);
}

LargePool::~LargePool() {
  shrink(0);
  const Guard lock(registry_mutex());
  delist(&mutex_);
}

void* LargePool::alloc(size_t bytes, uint64_t others) noexcept {
  const size_t pages = whole_pages(bytes);
  const Guard lock(mutex_);
  ++allocations_;
  if (void* data = take_free(pages)) {
    ++hits_;
    return data;
  }
  const uint64_t wanted = others + pages;
  shrink_locked(bound() > wanted ? bound() - wanted : 0);
  void* data = map_pages(pages);
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

void* LargePool::take_free(size_t pages) noexcept {
  const auto found = free_.lower_bound({pages, 0});
  if (found == free_.end() || found->first.first > pages + pages / 8) return nullptr;
  void* data = found->second;
  pooled_ -= found->first.first;
  by_age_.erase(~found->first.second);
  free_.erase(found);
  return data;
}

void LargePool::free(void* data) noexcept {
  {
    const Guard lock(mutex_);
    const size_t pages = sizes_.at(data);
    const uint64_t age = ++clock_;
    try {
      by_age_.emplace(age, FreeKey{pages, ~age});
      free_.emplace(FreeKey{pages, ~age}, data);
      pooled_ += pages;
      return;
    } catch (...) {
      by_age_.erase(age);
    }
  }
  direct_free(data);  // no memory to remember it by
}

void LargePool::direct_free(void* data) noexcept {
  const Guard lock(mutex_);
  const auto found = sizes_.find(data);
  footprint_ -= found->second;
  unmap_pages(data, found->second);
  sizes_.erase(found);
}

void LargePool::shrink(uint64_t footprint) noexcept {
  const Guard lock(mutex_);
  shrink_locked(footprint);
}

void LargePool::shrink_locked(uint64_t footprint) noexcept {
  while (footprint_ > footprint && !by_age_.empty()) {
    const auto oldest = by_age_.begin();
    const auto block = free_.find(oldest->second);
    const size_t pages = block->first.first;
    unmap_pages(block->second, pages);
    sizes_.erase(block->second);
    free_.erase(block);
    by_age_.erase(oldest);
    footprint_ -= pages;
    pooled_ -= pages;
  }
}

uint64_t LargePool::footprint() noexcept {
  const Guard lock(mutex_);
  return footprint_;
}

AllocatorCounts LargePool::counts() noexcept {
  const Guard lock(mutex_);
  return {pooled_, allocations_, hits_, allocations_};
}

}  // namespace mx::storage
