// SPDX-License-Identifier: Apache-2.0
#include "storage_manager.hpp"

#include "driver.hpp"
#include "mx_core/failure.hpp"
#include "mx_core/storage_table.hpp"

namespace mx::cuda {

StorageManager::StorageManager(mx_device_type type, PoolType pool, int reserve)
    : type_(type), pool_(pool), reserve_(reserve), table_(storage_table(this)) {}

StorageManager::~StorageManager() {
  if (forked()) return;
  for (std::atomic<Account*>& slot : accounts_) delete slot.load();
}

Account& StorageManager::account(mx_context context) {
  functions();  // refuses in a forked child
  if (context.type != type_ || context.id < 0 || context.id >= kIds) {
    throw Error(MX_ERROR_VALUE, "[storage] " + name_of(context) + ": expected " +
                                    (type_ == MX_GPU ? "gpu" : "cpu_pinned") + "(0) to (" +
                                    std::to_string(kIds - 1) + ")");
  }
  std::atomic<Account*>& slot = accounts_[context.id];
  Account* found = slot.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto source = type_ == MX_GPU ? device_memory(context.id, reserve_) : pinned_memory();
  auto made = std::make_unique<Account>(context, make_pool(pool_, std::move(source)));
  if (slot.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *found;  // another thread was first
}

}  // namespace mx::cuda
