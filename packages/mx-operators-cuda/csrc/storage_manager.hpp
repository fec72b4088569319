// SPDX-License-Identifier: Apache-2.0
//
// A storage manager for memory of GPUs, or for host memory page-locked for them: accounts by context
// behind table mx.storage.v1.
#pragma once

#include <atomic>

#include "account.hpp"
#include "mx_core/storage.h"

namespace mx::cuda {

class StorageManager {
 public:
  // `type`: MX_GPU or MX_CPU_PINNED.  `reserve`: percent of a GPU's memory; where less would be left,
  // what is pooled goes back before more is taken.
  StorageManager(mx_device_type type, PoolType pool, int reserve = 0);
  StorageManager(const StorageManager&) = delete;
  StorageManager& operator=(const StorageManager&) = delete;
  ~StorageManager();

  // Made on first use.  Throws mx::Error for another type or a device that there is not, and in a
  // forked child.  Threads: any.
  Account& account(mx_context context);
  mx_device_type type() const noexcept { return type_; }
  const mx_storage_api* table() const noexcept { return &table_; }

 private:
  static constexpr int32_t kIds = 64;

  const mx_device_type type_;
  const PoolType pool_;
  const int reserve_;
  std::atomic<Account*> accounts_[kIds] = {};
  const mx_storage_api table_;
};

}  // namespace mx::cuda
