// SPDX-License-Identifier: Apache-2.0
//
// The memory of one context: an allocator, and who holds how much of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "allocator.h"
#include "journal.h"
#include "mx_core/storage.h"

namespace mx::storage {

// What blocks of one tag add up to.
struct Holder {
  std::atomic<const char*> tag{nullptr};
  std::atomic<int64_t> bytes{0};
};

class Account {
 public:
  Account(mx_context context, std::string name, std::unique_ptr<Allocator> allocator, Journal& journal);

  // Throws mx::Error (MX_ERROR_MEMORY).  Threads: any, for all.
  void alloc(size_t bytes, const char* tag, mx_block* block);
  // The same for memory that `get` finds elsewhere, and that the allocator can free.
  template <class Get>
  void adopt(size_t bytes, const char* tag, const Get& get, mx_block* block) {
    *block = {nullptr, bytes, context_, nullptr};
    if (bytes == 0) return;
    reserve(bytes, tag);
    try {
      block->data = get();
    } catch (...) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      throw;
    }
    record(bytes, tag, block);
  }
  void free(const mx_block& block) noexcept;
  void direct_free(const mx_block& block) noexcept;
  void release() noexcept { allocator_->release(); }
  mx_storage_stats stats() noexcept;
  AllocatorCounts counts() noexcept { return allocator_->counts(); }
  void reset_peak() noexcept { peak_.store(used_.load()); }
  void set_limit(uint64_t bytes) noexcept;
  // Calls visit(tag, bytes) for every tag that ever held memory.
  template <class Visit>
  void each_holder(Visit&& visit) const {
    for (const Holder& holder : holders_) {
      const char* tag = holder.tag.load(std::memory_order_acquire);
      if (tag != nullptr) visit(tag, holder.bytes.load(std::memory_order_relaxed));
    }
  }

 private:
  static constexpr uint32_t kHolders = 256;  // tags beyond are not told apart

  void reserve(size_t bytes, const char* tag);
  void raise_peak(uint64_t used) noexcept;
  void record(size_t bytes, const char* tag, mx_block* block) noexcept;
  void tell(int64_t bytes, const char* tag) noexcept;
  void unreserve(const mx_block& block) noexcept;
  Holder* holder(const char* tag) noexcept;
  [[noreturn]] void refuse(size_t bytes, const char* tag, const std::string& why);

  const mx_context context_;
  const std::string name_;
  const std::unique_ptr<Allocator> allocator_;
  Journal& journal_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> peak_{0};        // the statistic, can be reset
  std::atomic<uint64_t> high_water_{0};  // the highest ever, bounds the pool
  std::atomic<uint64_t> limit_{0};
  std::atomic<uint64_t> empty_{0};  // allocations of no bytes
  Holder holders_[kHolders];
};

}  // namespace mx::storage
