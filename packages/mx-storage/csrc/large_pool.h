// SPDX-License-Identifier: Apache-2.0
//
// Blocks above 1 MiB: whole pages, mapped one by one and recycled by best fit.  A free block serves
// a request when at most an eighth of it would be lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "allocator.h"

namespace mx::storage {

class LargePool {
 public:
  LargePool();
  LargePool(const LargePool&) = delete;
  LargePool& operator=(const LargePool&) = delete;
  ~LargePool();

  // `others` is what the small pool holds; it counts for the bound.
  void* alloc(size_t bytes, uint64_t others) noexcept;
  void free(void* data) noexcept;
  void direct_free(void* data) noexcept;
  // Gives pooled blocks back, oldest first, until at most `footprint` bytes are taken from the system.
  void shrink(uint64_t footprint) noexcept;
  void set_bound(uint64_t bytes) noexcept { bound_.store(bytes, std::memory_order_relaxed); }
  uint64_t bound() const noexcept { return bound_.load(std::memory_order_relaxed); }
  uint64_t footprint() noexcept;
  AllocatorCounts counts() noexcept;

 private:
  // Size and, of equal ones, the one freed last first.
  using FreeKey = std::pair<size_t, uint64_t>;
  void* take_free(size_t pages) noexcept;
  void shrink_locked(uint64_t footprint) noexcept;

  std::atomic<uint64_t> bound_{~uint64_t{0}};
  std::mutex mutex_;  // guards all that follows
  std::unordered_map<void*, size_t> sizes_;  // of every block, used or free
  std::map<FreeKey, void*> free_;
  std::map<uint64_t, FreeKey> by_age_;  // of free blocks; the key counts up
  uint64_t clock_ = 0;
  uint64_t footprint_ = 0;
  uint64_t pooled_ = 0;
  uint64_t allocations_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace mx::storage
