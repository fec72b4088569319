// SPDX-License-Identifier: Apache-2.0
//
// The C table in C++ clothes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "manager.hpp"
#include "mx_core/native_tests.hpp"

namespace test {

constexpr mx_context kCpu{MX_CPU, 0};

// A manager seen through its table only.
class Memory {
 public:
  explicit Memory(mx::storage::PoolType type = mx::storage::PoolType::kPooled,
                  const mx::storage::Rounding& rounding = {})
      : manager_(type, rounding) {}
  const mx_storage_api* operator->() const { return manager_.table(); }
  void* self() const { return manager_.table()->self; }

  int32_t try_alloc(size_t bytes, mx_block* block, std::string* message,
                    mx_context context = kCpu, const char* tag = "test") const {
    mx_error error{};
    const int32_t status = (*this)->alloc(self(), context, bytes, tag, block, &error);
    if (message != nullptr) *message = status == MX_OK ? "" : error.message;
    return status;
  }
  mx_block alloc(size_t bytes, mx_context context = kCpu) const {
    mx_block block{};
    std::string message;
    if (try_alloc(bytes, &block, &message, context) != MX_OK) {
      std::fprintf(stderr, "alloc of %zu: %s\n", bytes, message.c_str());
      std::abort();
    }
    CHECK(block.bytes == bytes && reinterpret_cast<uintptr_t>(block.data) % 64 == 0);
    return block;
  }
  void free(const mx_block& block) const { (*this)->free(self(), &block); }
  void direct_free(const mx_block& block) const { (*this)->direct_free(self(), &block); }
  void release() const { (*this)->release_all(self(), kCpu); }
  // Not in the table: how often threads met at a lock.
  mx::storage::AllocatorCounts counts() { return manager_.account(kCpu).counts(); }
  mx_storage_stats stats() const {
    mx_storage_stats stats{};
    mx_error error{};
    CHECK((*this)->stats(self(), kCpu, &stats, &error) == MX_OK);
    return stats;
  }

 private:
  mx::storage::Manager manager_;
};

}  // namespace test
