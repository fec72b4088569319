// SPDX-License-Identifier: Apache-2.0
//
// Blocks that other processes may map, too: pages of one anonymous file.  A block is put there when it is first asked
// for, at the same address and with the same content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "mx_core/best_fit.hpp"
#include "mx_core/storage.h"
#include "registry.hpp"

namespace mx::storage {

// Threads: any.
// In the child of a fork the blocks are the child's own: what it writes nobody else sees.  Of pages that it has not
// written it may see what the parent writes later.
class SharedPages final : private Forked {
 public:
  // `span`: bytes of the file.  Others may map as many; they have memory only where there are blocks.
  explicit SharedPages(uint64_t span = uint64_t{1} << 38) : span_(span) { enlist(this); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages();

  // The file, made if there is none; its descriptor is -1 where there is none to be had.
  mx_segment file() noexcept;
  // Where whole pages lie in the file; they are put there if they are not.  -1 where that cannot be, such as in a file
  // that is full.  Nobody may write them meanwhile.
  int64_t share(void* data, size_t bytes) noexcept;
  // Before pages are unmapped: their part of the file goes, too, and may be that of others later.
  void forget(void* data) noexcept;

 private:
  struct Place {
    uint64_t offset;
    size_t bytes;
  };
  using Places = std::map<void*, Place>;

  void lock_for_fork() noexcept override;
  void unlock_after_fork() noexcept override;
  bool open() noexcept;
  bool free_all() noexcept;
  bool put(void* data, const Place& place) noexcept;
  void forget_place(Places::iterator found) noexcept;

  const uint64_t span_;
  std::mutex mutex_;  // guards all that follows
  Places places_;
  BestFit free_;  // parts of the file
  int file_ = -1;
  uint64_t inode_ = 0;
  int process_ = 0;  // that forks
};

}  // namespace mx::storage
