// SPDX-License-Identifier: Apache-2.0
//
// Memory that processes share: anonymous files (memfd_create) mapped into each.  There is no name in the
// file system, so nothing remains when the last process that maps or holds one is gone, however it died.
// Their size is sealed: no process can cut off what another one reads.
#pragma once

#include <atomic>
#include <map>

#include "allocator.hpp"
#include "mx_core/storage.h"
#include "registry.hpp"

namespace mx::storage {

class SharedAllocator final : public Allocator {
 public:
  ~SharedAllocator() override;

  // Never from a pool: another process may still look at what was freed here.
  void* alloc(size_t bytes) noexcept override;
  void free(void* data, size_t bytes) noexcept override;
  void direct_free(void* data, size_t bytes) noexcept override { free(data, bytes); }
  void release() noexcept override {}
  void set_bound(uint64_t) noexcept override {}
  AllocatorCounts counts() noexcept override { return {0, allocations_.load(), 0}; }

  // Throws mx::Error for other memory.
  mx_segment segment(const void* data) const;
  // A mapping of the descriptor's segment; it is duplicated.  Throws mx::Error.
  void* attach(int fd, size_t bytes);

 private:
  struct Mapping {
    int fd;
    size_t length;
    uint64_t inode;
  };
  // Takes the descriptor; NULL, with the descriptor closed, when there is no memory.
  void* map(int fd, size_t bytes) noexcept;

  mutable Mutex mutex_;
  std::map<const char*, Mapping> mappings_;  // by address; guarded by mutex_
  std::atomic<uint64_t> allocations_{0};
};

}  // namespace mx::storage
