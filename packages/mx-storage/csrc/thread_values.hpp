// SPDX-License-Identifier: Apache-2.0
//
// What each thread keeps for each of several owners: found by the owner's number without a lock, told when
// the thread ends, and dropped when nobody but the thread holds it any more.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mx::storage {

// A number that no other owner has.
inline uint64_t next_owner() noexcept {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// `Value` has a method thread_ended(), which may take locks.
template <class Value>
class ThreadValues {
 public:
  // The calling thread's value for an owner; the first time `make` gives it, a shared pointer which the owner
  // holds too.  NULL where there is no memory for it and at the end of a thread.
  template <class Make>
  static Value* find(uint64_t owner, const Make& make) noexcept {
    if (recent_.owner == owner) return recent_.value;
    return recent_.ended ? nullptr : all_.search(owner, make);
  }

 private:
  // The last one used.  Trivial, so that it can be read before and after the life of `all_`.
  struct Recent {
    uint64_t owner;
    Value* value;
    bool ended;
  };
  struct Owned {
    uint64_t owner;
    std::shared_ptr<Value> value;
  };

  ~ThreadValues() {
    recent_ = {0, nullptr, true};
    for (const Owned& owned : owned_) owned.value->thread_ended();
  }

  template <class Make>
  Value* search(uint64_t owner, const Make& make) noexcept {
    const auto found = std::find_if(owned_.begin(), owned_.end(), [&](const Owned& o) { return o.owner == owner; });
    if (found != owned_.end()) {
      recent_ = {owner, found->value.get(), false};
      return recent_.value;
    }
    owned_.erase(std::remove_if(owned_.begin(), owned_.end(), [](const Owned& o) { return o.value.use_count() == 1; }),
                 owned_.end());
    try {
      owned_.reserve(owned_.size() + 1);  // what `make` gave is not lost
      owned_.push_back({owner, make()});
    } catch (...) {
      return nullptr;
    }
    recent_ = {owner, owned_.back().value.get(), false};
    return recent_.value;
  }

  static thread_local Recent recent_;
  static thread_local ThreadValues all_;
  std::vector<Owned> owned_;
};

template <class Value>
thread_local typename ThreadValues<Value>::Recent ThreadValues<Value>::recent_{0, nullptr, false};
template <class Value>
thread_local ThreadValues<Value> ThreadValues<Value>::all_;

}  // namespace mx::storage
