// SPDX-License-Identifier: Apache-2.0
#include "manager.hpp"

#include <string>

#include "mx_core/failure.hpp"
#include "mx_core/storage_table.hpp"
#include "shared_pages.hpp"

namespace mx::storage {
namespace {

Manager& of(void* self) noexcept { return *static_cast<Manager*>(self); }

std::string name_of(mx_context context) {
  return (context.type == MX_CPU ? "cpu(" : "cpu_pinned(") + std::to_string(context.id) + ")";
}

std::unique_ptr<Allocator> make_allocator(PoolType type, const Rounding& rounding) {
  switch (type) {
    case PoolType::kPooled: return make_pooled_allocator();
    case PoolType::kBestFit: return make_best_fit_allocator();
    case PoolType::kBuckets: return make_bucket_allocator(rounding);
    case PoolType::kNaive:
    case PoolType::kShared: break;
  }
  return make_direct_allocator();
}

}  // namespace

Manager::Manager(PoolType type, const Rounding& rounding)
    : type_(type), rounding_(rounding), table_(storage_table(this)) {
  fill_sharing_table();
  if (type == PoolType::kShared) {
    auto allocator = std::make_unique<SharedAllocator>();
    shared_ = allocator.get();
    shared_account_ = std::make_unique<Account>(mx_context{MX_CPU_SHARED, 0}, "cpu_shared(0)", std::move(allocator), events_);
    fill_shared_table();
  }
}

void Manager::fill_shared_table() noexcept {
  mx_shared_api& t = shared_table_;
  t.head = {sizeof t, MX_SHARED_MAJOR, MX_SHARED_MINOR};
  t.self = this;
  t.segment = [](void* self, const void* data, mx_segment* segment, mx_error* error) {
    return guarded(error, [&] { *segment = of(self).shared_->segment(data); });
  };
  t.attach = [](void* self, int32_t fd, uint64_t bytes, const char* tag, mx_block* block, mx_error* error) {
    return guarded(error, [&] {
      Manager& manager = of(self);
      manager.shared_account_->adopt(bytes, tag, [&] { return manager.shared_->attach(fd, bytes); }, block);
    });
  };
}

void Manager::fill_sharing_table() noexcept {
  mx_shared_api& t = sharing_table_;
  t.head = {sizeof t, MX_SHARED_MAJOR, MX_SHARED_MINOR};
  t.self = this;
  t.segment = [](void* self, const void* data, mx_segment* segment, mx_error* error) {
    return guarded(error, [&] { *segment = of(self).share(data); });
  };
  t.attach = [](void*, int32_t, uint64_t, const char*, mx_block*, mx_error* error) {
    return guarded(error, [] { throw Error(MX_ERROR_UNSUPPORTED, "[storage] cpu(0) has no segments of others"); });
  };
}

const mx_shared_api* Manager::sharing_table() noexcept {
  return type_ == PoolType::kPooled ? &sharing_table_ : nullptr;
}

mx_segment Manager::share(const void* data) {
  Allocator& allocator = account({MX_CPU, 0}).allocator();
  mx_segment found = allocator.shared_pages()->file();
  if (found.fd < 0) throw Error(MX_ERROR_MEMORY, "[storage] the system has no anonymous file");
  if (data == nullptr) return found;
  const int64_t offset = allocator.share(const_cast<void*>(data));
  if (offset < 0) throw Error(MX_ERROR_VALUE, "[storage] this memory is no large block of cpu(0), or cannot be shared");
  found.offset = static_cast<uint64_t>(offset);
  return found;
}

Manager::~Manager() {
  for (auto* accounts : {&plain_, &pinned_}) {
    for (std::atomic<Account*>& slot : *accounts) delete slot.load();
  }
}

Account& Manager::account(mx_context context) {
  if (type_ == PoolType::kShared) {
    if (context.type == MX_CPU_SHARED) return *shared_account_;  // one for all ids: it is the same memory
    throw Error(MX_ERROR_VALUE, "[storage] device type " + std::to_string(context.type) +
                                    ": expected cpu_shared (" + std::to_string(MX_CPU_SHARED) + ")");
  }
  const bool plain = context.type == MX_CPU;
  if ((plain || context.type == MX_CPU_PINNED) && context.id >= 0 && context.id < kIds) {
    Account* found = (plain ? plain_ : pinned_)[context.id].load(std::memory_order_acquire);
    return found != nullptr ? *found : open(context);
  }
  if (context.type == MX_CPU_SHARED) {
    throw Error(MX_ERROR_UNSUPPORTED,
                "[storage] cpu_shared: this storage manager has no memory shared between processes; "
                "the one of services.storage('cpu_shared') has");
  }
  if (!plain && context.type != MX_CPU_PINNED) {
    throw Error(MX_ERROR_VALUE, "[storage] device type " + std::to_string(context.type) +
                                    ": expected host memory, cpu (1) or cpu_pinned (3)");
  }
  throw Error(MX_ERROR_VALUE, "[storage] " + name_of(context) + ": expected a device id from 0 to " +
                                  std::to_string(kIds - 1));
}

Account& Manager::open(mx_context context) {
  auto made = std::make_unique<Account>(context, name_of(context), make_allocator(type_, rounding_), events_);
  auto& slot = (context.type == MX_CPU ? plain_ : pinned_)[context.id];
  Account* found = nullptr;
  if (slot.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *found;  // another thread was first
}

}  // namespace mx::storage
