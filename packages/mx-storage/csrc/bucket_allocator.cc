// SPDX-License-Identifier: Apache-2.0
//
// Buckets: a size is rounded, and a freed block serves the next request that rounds to the same.  Simple
// to predict; every call takes one lock, and what no size asks for again stays until the pool is full.
#include <algorithm>
#include <map>
#include <vector>

#include "allocator.hpp"
#include "registry.hpp"
#include "size_class.hpp"
#include "system_memory.hpp"

namespace mx::storage {
namespace {

size_t multiple(size_t bytes, size_t of) noexcept { return (bytes + of - 1) / of * of; }

class BucketAllocator final : public Allocator {
 public:
  explicit BucketAllocator(const Rounding& rounding) : rounding_(rounding) {}
  ~BucketAllocator() override { BucketAllocator::release(); }

  void* alloc(size_t bytes) noexcept override {
    const size_t size = rounding_(bytes);
    const Guard lock(mutex_);
    ++allocations_;
    const auto bucket = free_.find(size);
    if (bucket != free_.end() && !bucket->second.empty()) {
      ++hits_;
      pooled_ -= size;
      void* data = bucket->second.back();
      bucket->second.pop_back();
      return data;
    }
    if (footprint_ + size > bound_) release_locked();
    void* data = size <= kSmallLimit ? heap_alloc(size) : map_pages(size);
    if (data != nullptr) footprint_ += size;
    return data;
  }
  void free(void* data, size_t bytes) noexcept override {
    const size_t size = rounding_(bytes);
    const Guard lock(mutex_);
    try {
      free_[size].push_back(data);
      pooled_ += size;
    } catch (...) {
      give_back(data, size);  // no memory to remember it by
    }
  }
  void direct_free(void* data, size_t bytes) noexcept override {
    const Guard lock(mutex_);
    give_back(data, rounding_(bytes));
  }
  void release() noexcept override {
    const Guard lock(mutex_);
    release_locked();
  }
  void set_bound(uint64_t bytes) noexcept override {
    const Guard lock(mutex_);
    bound_ = bytes;
  }
  AllocatorCounts counts() noexcept override {
    const Guard lock(mutex_);
    return {pooled_, allocations_, hits_, allocations_};
  }

 private:
  void give_back(void* data, size_t size) noexcept {
    footprint_ -= size;
    if (size <= kSmallLimit) {
      heap_free(data);
    } else {
      unmap_pages(data, size);
    }
  }
  void release_locked() noexcept {
    for (const auto& [size, blocks] : free_) {
      for (void* data : blocks) give_back(data, size);
    }
    free_.clear();
    pooled_ = 0;
  }

  const Rounding rounding_;
  Mutex mutex_;  // guards all that follows
  std::map<size_t, std::vector<void*>> free_;
  uint64_t bound_ = ~uint64_t{0};
  uint64_t footprint_ = 0;
  uint64_t pooled_ = 0;
  uint64_t allocations_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace

size_t Rounding::operator()(size_t bytes) const noexcept {
  if (!powers) return multiple(bytes, bytes > large ? large : page);
  const size_t linear = size_t{1} << cutoff;
  if (bytes > linear) return multiple(bytes, linear);
  size_t size = page;
  while (size < bytes) size *= 2;
  return size;
}

std::unique_ptr<Allocator> make_bucket_allocator(const Rounding& rounding) {
  return std::make_unique<BucketAllocator>(rounding);
}

}  // namespace mx::storage
