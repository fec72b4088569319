// SPDX-License-Identifier: Apache-2.0
#include "storage_manager.h"

#include "driver.h"
#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

StorageManager& of(void* self) noexcept { return *static_cast<StorageManager*>(self); }

// The functions that cannot fail are for contexts that memory came from; for others, and in a forked
// child, whose parent holds the memory, they do nothing.
template <class Body>
void on_account(void* self, mx_context context, Body&& body) noexcept {
  guarded(nullptr, [&] { body(of(self).account(context)); });
}

}  // namespace

StorageManager::StorageManager(mx_device_type type, PoolType pool, int reserve)
    : type_(type), pool_(pool), reserve_(reserve) {
  mx_storage_api& t = table_;
  t.head = {sizeof t, MX_STORAGE_MAJOR, MX_STORAGE_MINOR};
  t.self = this;
  t.alloc = [](void* self, mx_context context, size_t bytes, const char* tag, mx_block* block,
               mx_error* error) {
    return guarded(error, [&] { of(self).account(context).alloc(bytes, tag, block); });
  };
  t.free = [](void* self, const mx_block* block) {
    on_account(self, block->context, [&](Account& account) { account.free(*block, false); });
  };
  t.direct_free = [](void* self, const mx_block* block) {
    on_account(self, block->context, [&](Account& account) { account.free(*block, true); });
  };
  t.release_all = [](void* self, mx_context context) {
    on_account(self, context, [](Account& account) { account.release(); });
  };
  t.stats = [](void* self, mx_context context, mx_storage_stats* stats, mx_error* error) {
    return guarded(error, [&] { *stats = of(self).account(context).stats(); });
  };
  t.reset_peak = [](void* self, mx_context context) {
    on_account(self, context, [](Account& account) { account.reset_peak(); });
  };
  t.set_limit = [](void* self, mx_context context, uint64_t bytes) {
    on_account(self, context, [&](Account& account) { account.set_limit(bytes); });
  };
}

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
