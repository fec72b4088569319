// SPDX-License-Identifier: Apache-2.0
//
// A storage manager: accounts by context behind a C table.
#pragma once

#include <atomic>
#include <memory>

#include "account.h"

namespace mx::storage {

enum class PoolType { kPooled, kBestFit, kNaive };

class Manager {
 public:
  explicit Manager(PoolType type);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager();

  // Made on first use.  Throws mx::Error for a context that is not host memory.  Threads: any.
  Account& account(mx_context context);
  const mx_storage_api* table() const noexcept { return &table_; }

 private:
  static constexpr int32_t kIds = 64;
  Account& open(mx_context context);

  const PoolType type_;
  std::atomic<Account*> plain_[kIds] = {};
  std::atomic<Account*> pinned_[kIds] = {};
  mx_storage_api table_{};
};

}  // namespace mx::storage
