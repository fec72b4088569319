// SPDX-License-Identifier: Apache-2.0
//
// The memory of one context: a pool, a limit, and who holds how much.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "mx_core/storage.h"
#include "pool.hpp"

namespace mx::cuda {

// What a captured step needs for itself: memory that was allocated while it was captured, and what was freed since but
// is used by its runs.
struct Reserve {
  std::unique_ptr<Pool> pool;
  std::map<uintptr_t, size_t> used;     // of the pool
  std::map<uintptr_t, size_t> kept;     // of the account's pool, freed when the step goes
  std::map<uintptr_t, size_t> touched;  // what its runs use
  enum { kCaptures, kRuns, kGone } state = kCaptures;
};

// Pieces of memory, bytes by address: whether one of them begins in another piece.
bool begins_in(const std::map<uintptr_t, size_t>& pieces, uintptr_t data, size_t bytes) noexcept;
// Whether another piece begins in one of them.
bool holds(const std::map<uintptr_t, size_t>& pieces, uintptr_t data) noexcept;

// Threads: any, for all.
class Account {
 public:
  Account(mx_context context, std::unique_ptr<Pool> pool);

  // Throws mx::Error (MX_ERROR_MEMORY).
  void alloc(size_t bytes, const char* tag, mx_block* block);
  void free(const mx_block& block) noexcept { free(block, false); }
  void direct_free(const mx_block& block) noexcept { free(block, true); }
  void release() noexcept;
  mx_storage_stats stats() noexcept;
  void reset_peak() noexcept;
  void set_limit(uint64_t bytes) noexcept;
  // While a step is captured, what is allocated comes from the step's pool, and nothing is pooled for others.
  Reserve* open_reserve(std::unique_ptr<Pool> pool);
  // Allocated while it was captured?
  bool reserved(const Reserve* reserve, const void* data);
  void close_reserve(Reserve* reserve, std::map<uintptr_t, size_t> touched);
  // Nothing runs any more that uses it.
  void end_reserve(Reserve* reserve) noexcept;
  // Bytes held per tag.
  std::map<std::string, uint64_t> holders();

 private:
  struct Holder {
    const char* tag;
    uint64_t bytes = 0;
  };
  void* find(size_t bytes);
  void free(const mx_block& block, bool direct) noexcept;
  void* take(size_t bytes, bool* reused);
  bool keep_reserved(void* data, size_t bytes) noexcept;
  std::map<std::string, uint64_t> by_tag() const;
  [[noreturn]] void refuse(size_t bytes, const char* tag, const char* why) const;

  const mx_context context_;
  const std::string name_;
  std::mutex mutex_;  // guards all that follows
  const std::unique_ptr<Pool> pool_;
  std::vector<std::unique_ptr<Reserve>> reserves_;
  std::unordered_map<const char*, Holder> holders_;  // addresses of the values are stable
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
  uint64_t limit_ = 0;
  uint64_t allocations_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace mx::cuda
