// SPDX-License-Identifier: Apache-2.0
//
// Blocks that other processes may map, too: pages of one anonymous file.  A block is put there when it is first asked
// for, at the same address and with the same content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "mx_core/storage.h"
#include "registry.hpp"

namespace mx::storage {

// Threads: any.
// In the child of a fork the blocks are the child's own: what it writes nobody else sees.  Of pages that it has not
// written it may see what the parent writes later.
class SharedPages final : private Forked {
 public:
  // Bytes of the file at most.  Others may map as many; they have memory only where there are blocks.
  static constexpr uint64_t kSpan = uint64_t{1} << 38;

  SharedPages() { enlist(this); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages();

  // The file, made if there is none; its descriptor is -1 where there is none to be had.
  mx_segment file() noexcept;
  // Where whole pages lie in the file; they are put there if they are not.  -1 where that cannot be.  Nobody may write
  // them meanwhile.
  int64_t share(void* data, size_t bytes) noexcept;
  // Before pages are unmapped: their part of the file goes, too.
  void forget(void* data) noexcept;

 private:
  struct Place {
    uint64_t offset;
    size_t bytes;
  };

  void lock_for_fork() noexcept override;
  void unlock_after_fork() noexcept override;
  bool open() noexcept;
  bool put(void* data, const Place& place) noexcept;

  std::mutex mutex_;  // guards all that follows
  std::map<void*, Place> places_;
  int file_ = -1;
  uint64_t inode_ = 0, used_ = 0;
  int process_ = 0;  // that forks
};

}  // namespace mx::storage
