// SPDX-License-Identifier: Apache-2.0
//
// What was worked out lately, by key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "mx_core/striped_mutex.hpp"

namespace mx::cpu {

// Threads: any; two may work out one value at the same time.
template <class Value>
class Recent {
 public:
  using Key = std::vector<int64_t>;

  // Forgets everything when there are `most`.
  explicit Recent(size_t most) : most_(most) {}

  // What `make` returns for a key.  What it throws is not kept.
  template <class Make>
  Value get(const Key& key, const Make& make) {
    {
      const std::lock_guard<std::mutex> lock(Mutex::of(this));
      const auto found = values_.find(key);
      if (found != values_.end()) return found->second;
    }
    Value made = make();
    const std::lock_guard<std::mutex> lock(Mutex::of(this));
    if (values_.size() >= most_) values_.clear();
    values_.emplace(key, made);
    return made;
  }

 private:
  using Mutex = StripedMutex<Recent>;

  const size_t most_;
  std::map<Key, Value> values_;  // guarded by Mutex
};

}  // namespace mx::cpu
