// SPDX-License-Identifier: Apache-2.0
//
// Table mx.storage.v1 of a manager with an account per context.
#pragma once

#include "mx_core/failure.hpp"
#include "mx_core/storage.h"

namespace mx {

namespace detail {

template <class Manager>
struct Accounts {
  static Manager& manager(void* self) noexcept { return *static_cast<Manager*>(self); }
  // What cannot fail is for contexts that memory came from; for others it does nothing.
  template <class Body>
  static void use(void* self, mx_context context, Body&& body) noexcept {
    guarded(nullptr, [&] { body(manager(self).account(context)); });
  }
};

}  // namespace detail

// `Manager` has account(mx_context), which may throw Error; an account has alloc, free, direct_free,
// release, stats, reset_peak and set_limit, of which all but alloc and stats cannot fail.
template <class Manager>
mx_storage_api storage_table(Manager* manager) noexcept {
  using Of = detail::Accounts<Manager>;
  mx_storage_api t{};
  t.head = {sizeof t, MX_STORAGE_MAJOR, MX_STORAGE_MINOR};
  t.self = manager;
  t.alloc = [](void* self, mx_context context, size_t bytes, const char* tag, mx_block* block,
               mx_error* error) {
    return guarded(error, [&] { Of::manager(self).account(context).alloc(bytes, tag, block); });
  };
  t.free = [](void* self, const mx_block* block) {
    Of::use(self, block->context, [&](auto& account) { account.free(*block); });
  };
  t.direct_free = [](void* self, const mx_block* block) {
    Of::use(self, block->context, [&](auto& account) { account.direct_free(*block); });
  };
  t.release_all = [](void* self, mx_context context) {
    Of::use(self, context, [](auto& account) { account.release(); });
  };
  t.stats = [](void* self, mx_context context, mx_storage_stats* stats, mx_error* error) {
    return guarded(error, [&] { *stats = Of::manager(self).account(context).stats(); });
  };
  t.reset_peak = [](void* self, mx_context context) {
    Of::use(self, context, [](auto& account) { account.reset_peak(); });
  };
  t.set_limit = [](void* self, mx_context context, uint64_t bytes) {
    Of::use(self, context, [&](auto& account) { account.set_limit(bytes); });
  };
  return t;
}

}  // namespace mx
