// SPDX-License-Identifier: Apache-2.0
#include "allocator.hpp"
#include "large_pool.hpp"
#include "small_pool.hpp"
#include "system_memory.hpp"

namespace mx::storage {
namespace {

class PooledAllocator final : public Allocator {
 public:
  void* alloc(size_t bytes) noexcept override {
    if (is_large(bytes)) return large_.alloc(bytes, small_.footprint());
    if (void* data = small_.take(bytes)) return data;
    const size_t size = class_bytes(class_of(bytes));
    make_room(size);
    void* data = heap_alloc(size);
    if (data != nullptr) small_.grew(size);
    return data;
  }
  void free(void* data, size_t bytes) noexcept override {
    if (is_large(bytes)) {
      large_.free(data, bytes);
    } else {
      small_.put(data, bytes);
    }
  }
  void direct_free(void* data, size_t bytes) noexcept override {
    if (is_large(bytes)) {
      large_.direct_free(data);
    } else {
      small_.shrank(class_bytes(class_of(bytes)));
      heap_free(data);
    }
  }
  void release() noexcept override {
    small_.release();
    large_.shrink(0);
  }
  SharedPages* shared_pages() noexcept override { return &large_.shared_pages(); }
  int64_t share(void* data) noexcept override { return large_.share(data); }
  void set_bound(uint64_t bytes) noexcept override { large_.set_bound(bytes); }
  AllocatorCounts counts() noexcept override {
    const AllocatorCounts small = small_.counts(), large = large_.counts();
    return {small.pooled + large.pooled, small.allocations + large.allocations,
            small.hits + large.hits, small.shared + large.shared};
  }

 private:
  // One of 1 MiB has pages of its own, too, so that it can be shared.
  static bool is_large(size_t bytes) noexcept { return bytes >= kSmallLimit; }

  // Small blocks go on growing while large ones lie idle: those are given back first.
  void make_room(size_t size) noexcept {
    const uint64_t wanted = small_.footprint() + size, bound = large_.bound();
    if (wanted + large_.footprint() > bound) large_.shrink(bound > wanted ? bound - wanted : 0);
  }

  SmallPool small_;
  LargePool large_;
};

}  // namespace

std::unique_ptr<Allocator> make_pooled_allocator() { return std::make_unique<PooledAllocator>(); }

}  // namespace mx::storage
