// SPDX-License-Identifier: Apache-2.0
//
// Large mappings that are cut to size.  Sizes that never repeat waste least here; every call takes one lock.
#include "mx_core/best_fit.hpp"

#include <algorithm>

#include "allocator.hpp"
#include "registry.hpp"
#include "size_class.hpp"
#include "system_memory.hpp"

namespace mx::storage {
namespace {

constexpr size_t kArena = size_t{32} << 20;

size_t rounded(size_t bytes) noexcept { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class BestFitAllocator final : public Allocator {
 public:
  ~BestFitAllocator() override { BestFitAllocator::release(); }

  void* alloc(size_t bytes) noexcept override {
    const size_t size = rounded(bytes);
    const Guard lock(mutex_);
    ++allocations_;
    try {
      if (void* data = pieces_.take(size)) {
        ++hits_;
        return data;
      }
      return grow(size) ? pieces_.take(size) : nullptr;
    } catch (...) {
      return nullptr;  // what was cut off stays a free piece of its own
    }
  }
  void free(void* data, size_t) noexcept override {
    const Guard lock(mutex_);
    pieces_.give(data);
  }
  // Memory goes back by whole arenas: at once when this was the last block of one.
  void direct_free(void* data, size_t) noexcept override {
    const Guard lock(mutex_);
    pieces_.give(data, unmap_pages);
  }
  void release() noexcept override {
    const Guard lock(mutex_);
    pieces_.release(unmap_pages);
  }
  void set_bound(uint64_t bytes) noexcept override {
    const Guard lock(mutex_);
    bound_ = bytes;
  }
  AllocatorCounts counts() noexcept override {
    const Guard lock(mutex_);
    return {pieces_.free_bytes(), allocations_, hits_, allocations_};
  }

 private:
  bool grow(size_t size) {
    size_t length = std::max(kArena, whole_pages(size));
    if (pieces_.footprint() + length > bound_) pieces_.release(unmap_pages);
    if (pieces_.footprint() + length > bound_) length = whole_pages(size);
    void* arena = map_pages(length);
    if (arena == nullptr) return false;
    try {
      pieces_.add(arena, length);
    } catch (...) {
      unmap_pages(arena, length);
      throw;
    }
    return true;
  }

  Mutex mutex_;  // guards all that follows
  BestFit pieces_;
  uint64_t bound_ = ~uint64_t{0};
  uint64_t allocations_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace

std::unique_ptr<Allocator> make_best_fit_allocator() { return std::make_unique<BestFitAllocator>(); }

}  // namespace mx::storage
