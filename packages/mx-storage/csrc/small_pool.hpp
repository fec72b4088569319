// SPDX-License-Identifier: Apache-2.0
//
// Blocks below 1 MiB.  Each thread keeps a few free blocks of each size class; a central pool
// serves the caches in batches, so that a thread which allocates and frees at a steady pace, or a
// pair of threads of which one allocates what the other frees, seldom meets the central lock.
//
// Locks, in this order: the process-wide registry (threads and pools come and go), a cache's flag
// (its thread on every call, hence uncontended; others for release and statistics), the central
// mutex.
//
// After Bonwick and Adams, "Magazines and Vmem", USENIX 2001.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "allocator.hpp"
#include "flag.hpp"
#include "free_list.hpp"
#include "registry.hpp"
#include "size_class.hpp"

namespace mx::storage {

class SmallPool;

struct alignas(64) ThreadCache {
  void thread_ended() noexcept;

  Flag flag;  // guards all that follows
  FreeList lists[kClasses];
  uint64_t bytes = 0;
  uint64_t allocations = 0;
  uint64_t hits = 0;
  SmallPool* pool = nullptr;  // guarded by the registry; NULL once the pool is gone
};

class SmallPool final : private Forked {
 public:
  SmallPool();
  SmallPool(const SmallPool&) = delete;
  SmallPool& operator=(const SmallPool&) = delete;
  ~SmallPool();

  // A pooled block, or NULL.
  void* take(size_t bytes) noexcept;
  // A block that take did not have was taken from the system, or given back to it.
  void grew(size_t bytes) noexcept { footprint_.fetch_add(bytes, std::memory_order_relaxed); }
  void shrank(size_t bytes) noexcept { footprint_.fetch_sub(bytes, std::memory_order_relaxed); }
  void put(void* data, size_t bytes) noexcept;
  void release() noexcept;
  AllocatorCounts counts() noexcept;
  // Bytes taken from the system, pooled or not.
  uint64_t footprint() const noexcept { return footprint_.load(std::memory_order_relaxed); }

  // The end of a thread.  The registry is held.
  void retire(ThreadCache& cache) noexcept;

 private:
  void lock_for_fork() noexcept override;
  void unlock_after_fork() noexcept override;
  ThreadCache* cache() noexcept;
  bool refill(ThreadCache& cache, uint32_t index) noexcept;
  void flush(ThreadCache& cache, uint32_t index, uint32_t n) noexcept;

  const uint64_t id_;
  std::atomic<uint64_t> footprint_{0};
  std::vector<std::shared_ptr<ThreadCache>> caches_;  // guarded by the registry
  std::mutex mutex_;                                  // guards all that follows
  FreeList central_[kClasses];
  uint64_t central_bytes_ = 0;
  uint64_t allocations_ = 0;  // of threads that ended or have no cache
  uint64_t hits_ = 0;
  uint64_t visits_ = 0;  // to this lock
};

}  // namespace mx::storage
