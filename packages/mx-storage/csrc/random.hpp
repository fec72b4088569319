// SPDX-License-Identifier: Apache-2.0
//
// Keys and counters of the random streams.  The numbers are made by mx_core/philox.hpp where they
// are used.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "mx_core/storage.h"

namespace mx::storage {

class Random {
 public:
  Random();
  Random(const Random&) = delete;
  Random& operator=(const Random&) = delete;

  // The key and first counter of `blocks` counters that nobody else gets.  Threads: any, for all.
  std::pair<uint64_t, uint64_t> reserve(mx_context context, uint64_t blocks);
  // The same seed gives the same stream on every context.
  void seed(mx_context context, uint64_t seed);
  // Every context gets a stream of its own; contexts not seen yet too.
  void seed_all(uint64_t seed);
  const mx_resource_api* table() const noexcept { return &table_; }

 private:
  struct Stream {
    uint64_t key;
    uint64_t offset;
  };
  Stream& stream(mx_context context);

  uint64_t seed_ = 0;
  std::map<std::pair<int32_t, int32_t>, Stream> streams_;
  mx_resource_api table_{};
};

}  // namespace mx::storage
