// SPDX-License-Identifier: Apache-2.0
//
// Blocks from 1 MiB on: whole pages, mapped one by one and recycled by best fit.  A free block serves
// a request when at most an eighth of it would be lost.  Each thread keeps the last few it freed for its next
// requests of the same size; they go back to the pool when a request finds nothing else.
//
// Locks, in this order: the pool's, a cache's; the pool's, that of shared pages.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator.hpp"
#include "flag.hpp"
#include "registry.hpp"
#include "shared_pages.hpp"

namespace mx::storage {

// What a thread freed last.
class alignas(64) LargeCache {
 public:
  static constexpr uint32_t kBlocks = 8;
  struct Block {
    void* data;
    size_t pages;  // at least as large; what the request came to
  };

  // NULL where there is none of this size.
  void* take(size_t pages) noexcept;
  // With the cache full, the older half goes to `others`; returns how many.
  uint32_t put(Block block, Block* others) noexcept;
  // All, oldest first; returns how many.
  uint32_t empty(Block* blocks) noexcept;
  uint64_t hits() noexcept;

  // A thread that ends leaves its cache to the next one.
  bool claim() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }
  void thread_ended() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  using FlagGuard = std::lock_guard<ForkSafe<Flag>>;
  uint32_t move(uint32_t n, Block* to) noexcept;

  ForkSafe<Flag> flag_;  // guards all that follows but taken_
  uint32_t count_ = 0;
  uint64_t hits_ = 0;
  Block blocks_[kBlocks];
  std::atomic<bool> taken_{true};
};

class LargePool {
 public:
  LargePool();
  LargePool(const LargePool&) = delete;
  LargePool& operator=(const LargePool&) = delete;
  ~LargePool();

  // `others` is what the small pool holds; it counts for the bound.
  void* alloc(size_t bytes, uint64_t others) noexcept;
  void free(void* data, size_t bytes) noexcept;
  void direct_free(void* data) noexcept;
  // Gives pooled blocks back, oldest first, until at most `footprint` bytes are taken from the system.
  void shrink(uint64_t footprint) noexcept;
  void set_bound(uint64_t bytes) noexcept { bound_.store(bytes, std::memory_order_relaxed); }
  uint64_t bound() const noexcept { return bound_.load(std::memory_order_relaxed); }
  uint64_t footprint() noexcept;
  AllocatorCounts counts() noexcept;
  // See SharedPages.  A block that was shared stays so when it is recycled.
  SharedPages& shared_pages() noexcept { return shared_; }
  int64_t share(void* data) noexcept;

 private:
  // Size and, of equal ones, the one freed last first.
  using FreeKey = std::pair<size_t, uint64_t>;
  LargeCache* cache() noexcept;
  void gather() noexcept;
  bool keep(void* data) noexcept;
  void unmap(void* data) noexcept;
  void* take_free(size_t pages) noexcept;
  void shrink_locked(uint64_t footprint) noexcept;

  std::atomic<uint64_t> bound_{~uint64_t{0}};
  const uint64_t number_;
  Mutex mutex_;  // guards all that follows
  std::vector<std::shared_ptr<LargeCache>> caches_;
  std::unordered_map<void*, size_t> sizes_;  // of every block, used or free
  std::map<FreeKey, void*> free_;
  std::map<uint64_t, FreeKey> by_age_;  // of free blocks; the key counts up
  uint64_t clock_ = 0;
  uint64_t footprint_ = 0;
  uint64_t pooled_ = 0;
  uint64_t allocations_ = 0;  // that no cache answered
  uint64_t hits_ = 0;         // of these
  uint64_t visits_ = 0;       // to this lock
  SharedPages shared_;        // has a lock of its own
};

}  // namespace mx::storage
