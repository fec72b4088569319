// SPDX-License-Identifier: Apache-2.0
//
// A storage manager: accounts by context behind a C table.
#pragma once

#include <atomic>
#include <memory>

#include "account.hpp"
#include "shared_allocator.hpp"

namespace mx::storage {

// kShared is for cpu_shared, the others are for cpu and cpu_pinned.
enum class PoolType { kPooled, kBestFit, kBuckets, kNaive, kShared };

class Manager {
 public:
  // `rounding` is that of buckets.
  explicit Manager(PoolType type, const Rounding& rounding = {});
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager();

  // Made on first use.  Throws mx::Error for a context that is not host memory.  Threads: any.
  Account& account(mx_context context);
  const mx_storage_api* table() const noexcept { return &table_; }
  EventLog& events() noexcept { return events_; }
  // NULL where the memory is not shared.
  const mx_shared_api* shared_table() const noexcept { return shared_ == nullptr ? nullptr : &shared_table_; }
  // The same for memory of cpu(0), of which a block is shared by asking for its segment: `segment` of NULL is the file
  // in which all of them lie, `attach` is refused.  NULL where the allocator cannot do that.
  const mx_shared_api* sharing_table() noexcept;

 private:
  static constexpr int32_t kIds = 64;
  Account& open(mx_context context);

  void fill_shared_table() noexcept;
  void fill_sharing_table() noexcept;
  mx_segment share(const void* data);

  const PoolType type_;
  const Rounding rounding_;
  EventLog events_;
  std::unique_ptr<Account> shared_account_;
  SharedAllocator* shared_ = nullptr;  // the account's
  std::atomic<Account*> plain_[kIds] = {};
  std::atomic<Account*> pinned_[kIds] = {};
  const mx_storage_api table_;
  mx_shared_api shared_table_{}, sharing_table_{};
};

}  // namespace mx::storage
