// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "allocator.hpp"
#include "size_class.hpp"
#include "system_memory.hpp"

namespace mx::storage {
namespace {

class DirectAllocator final : public Allocator {
 public:
  void* alloc(size_t bytes) noexcept override {
    allocations_.fetch_add(1, std::memory_order_relaxed);
    return bytes <= kSmallLimit ? heap_alloc(bytes) : map_pages(bytes);
  }
  void free(void* data, size_t bytes) noexcept override {
    if (bytes <= kSmallLimit) {
      heap_free(data);
    } else {
      unmap_pages(data, bytes);
    }
  }
  void direct_free(void* data, size_t bytes) noexcept override { free(data, bytes); }
  void release() noexcept override {}
  void set_bound(uint64_t) noexcept override {}
  AllocatorCounts counts() noexcept override { return {0, allocations_.load(), 0}; }

 private:
  std::atomic<uint64_t> allocations_{0};
};

}  // namespace

std::unique_ptr<Allocator> make_direct_allocator() { return std::make_unique<DirectAllocator>(); }

}  // namespace mx::storage
