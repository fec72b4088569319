// SPDX-License-Identifier: Apache-2.0
//
// The memory of one context: an allocator, and who holds how much of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "allocator.hpp"
#include "event_log.hpp"
#include "thread_credit.hpp"
#include "mx_core/storage.h"
#include "registry.hpp"

namespace mx::storage {

// What blocks of one tag add up to, but for what stands in thread credits.
struct TagBytes {
  std::atomic<const char*> tag{nullptr};
  std::atomic<int64_t> bytes{0};
};

class Account {
 public:
  Account(mx_context context, std::string name, std::unique_ptr<Allocator> allocator, EventLog& events);
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

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
      unreserve(bytes);
      throw;
    }
    record(bytes, tag, block);
  }
  void free(const mx_block& block) noexcept;
  void direct_free(const mx_block& block) noexcept;
  void release() noexcept { allocator_->release(); }
  mx_storage_stats stats() noexcept;
  AllocatorCounts counts() noexcept;
  Allocator& allocator() noexcept { return *allocator_; }
  void reset_peak() noexcept;
  void set_limit(uint64_t bytes) noexcept;
  // Calls visit(tag, bytes) for every tag that ever held memory.
  template <class Visit>
  void each_holder(Visit&& visit) {
    const Guard lock(mutex_);
    for (uint32_t i = 0; i < ThreadCredit::kTags; ++i) {
      const char* tag = holders_[i].tag.load(std::memory_order_acquire);
      if (tag == nullptr) continue;
      int64_t bytes = holders_[i].bytes.load(std::memory_order_relaxed);
      for (const auto& each : thread_credits_) bytes += each->held(i);
      visit(tag, bytes);
    }
  }

 private:
  ThreadCredit* thread_credit() noexcept;
  void reserve(size_t bytes, const char* tag);
  void unreserve(size_t bytes) noexcept;
  bool reserve_common(ThreadCredit* mine, size_t bytes) noexcept;
  void unreserve_common(ThreadCredit* mine, size_t bytes) noexcept;
  void recall() noexcept;
  void note_peak(const ThreadCredit* mine) noexcept;
  uint64_t in_use() const noexcept;
  void hold(TagBytes* holder, int64_t bytes) noexcept;
  void record(size_t bytes, const char* tag, mx_block* block) noexcept;
  void tell(int64_t bytes, const char* tag) noexcept;
  void give_up(const mx_block& block) noexcept;
  TagBytes* holder(const char* tag) noexcept;
  [[noreturn]] void refuse(size_t bytes, const char* tag, const std::string& why);

  const mx_context context_;
  const std::string name_;
  const uint64_t number_;
  const std::unique_ptr<Allocator> allocator_;
  EventLog& events_;
  std::atomic<uint64_t> limit_{0};
  std::atomic<uint64_t> empty_{0};  // allocations of no bytes
  TagBytes holders_[ThreadCredit::kTags];   // tags beyond are not told apart
  alignas(64) Mutex mutex_;         // guards all that follows
  std::vector<std::shared_ptr<ThreadCredit>> thread_credits_;
  uint64_t reserved_ = 0;    // in use, and the credit of all threads
  uint64_t peak_ = 0;        // the statistic, can be reset; what threads have seen since is not in it
  uint64_t high_water_ = 0;  // the most ever reserved, bounds the pool
  uint64_t visits_ = 0;      // of threads whose credit did not do
};

}  // namespace mx::storage
