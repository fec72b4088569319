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

#include "mx_core/storage.h"
#include "pool.hpp"

namespace mx::cuda {

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
  // Bytes held per tag.
  std::map<std::string, uint64_t> holders();

 private:
  struct Holder {
    const char* tag;
    uint64_t bytes = 0;
  };
  void* find(size_t bytes);
  void free(const mx_block& block, bool direct) noexcept;
  std::map<std::string, uint64_t> by_tag() const;
  [[noreturn]] void refuse(size_t bytes, const char* tag, const char* why) const;

  const mx_context context_;
  const std::string name_;
  std::mutex mutex_;  // guards all that follows
  const std::unique_ptr<Pool> pool_;
  std::unordered_map<const char*, Holder> holders_;  // addresses of the values are stable
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
  uint64_t limit_ = 0;
  uint64_t allocations_ = 0;
  uint64_t hits_ = 0;
};

}  // namespace mx::cuda
