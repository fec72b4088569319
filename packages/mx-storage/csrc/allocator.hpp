// SPDX-License-Identifier: Apache-2.0
//
// How memory is found: with a pool or without.  Who holds how much is counted elsewhere (account.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace mx::storage {

class SharedPages;

struct AllocatorCounts {
  uint64_t pooled = 0;       // bytes kept for reuse
  uint64_t allocations = 0;  // calls of alloc
  uint64_t hits = 0;         // of these, answered from the pool
  uint64_t shared = 0;       // calls, frees among them, that took a lock which other threads take too
};

// Which sizes are one, for pools of buckets.
struct Rounding {
  bool powers = false;               // to powers of two, or to the next page
  size_t page = 4096;                // the least size; a power of two, at least 64
  size_t large = size_t{2} << 20;    // pages: sizes beyond are multiples of this
  uint32_t cutoff = 24;              // powers: sizes beyond 2^cutoff are multiples of that
  size_t operator()(size_t bytes) const noexcept;
};

// Threads: any, for every method.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` (> 0), aligned to 64; NULL when the system has none left.
  virtual void* alloc(size_t bytes) noexcept = 0;
  // `bytes` as given to alloc.
  virtual void free(void* data, size_t bytes) noexcept = 0;
  virtual void direct_free(void* data, size_t bytes) noexcept = 0;
  // Gives everything pooled back to the system.
  virtual void release() noexcept = 0;
  // Before the pool takes more from the system it gives back what is pooled, oldest first, as long
  // as both together would exceed `bytes`.
  virtual void set_bound(uint64_t bytes) noexcept = 0;
  virtual AllocatorCounts counts() noexcept = 0;
  // What other processes may map of this memory; NULL: nothing.
  virtual SharedPages* shared_pages() noexcept { return nullptr; }
  // Where a block in use lies in the file of `shared_pages`, see there; -1: not there.
  virtual int64_t share(void*) noexcept { return -1; }
};

// No pool: malloc and mmap.
std::unique_ptr<Allocator> make_direct_allocator();
// Arenas that are cut to size and grow together again.
std::unique_ptr<Allocator> make_best_fit_allocator();
// Buckets of rounded sizes.
std::unique_ptr<Allocator> make_bucket_allocator(const Rounding& rounding);
// Size classes with thread caches below 1 MiB, recycled mappings from there on.
std::unique_ptr<Allocator> make_pooled_allocator();

}  // namespace mx::storage
