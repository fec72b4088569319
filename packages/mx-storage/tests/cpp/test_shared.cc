// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>
#include <vector>

#include "support.hpp"

using namespace mx::storage;

namespace {

constexpr mx_context kShared{MX_CPU_SHARED, 0};

mx_segment segment_of(const Manager& manager, const void* data) {
  const mx_shared_api* table = manager.shared_table();
  mx_segment segment{};
  mx_error error{};
  CHECK(table->segment(table->self, data, &segment, &error) == MX_OK);
  return segment;
}

void an_address_leads_to_its_segment_and_that_to_the_same_memory() {
  const Manager manager(PoolType::kShared);
  const mx_storage_api* memory = manager.table();
  const mx_shared_api* table = manager.shared_table();
  mx_block block{}, other{};
  mx_error error{};
  CHECK(memory->alloc(memory->self, kShared, 10'000, "test", &block, &error) == MX_OK);
  std::memset(block.data, 3, block.bytes);
  const mx_segment segment = segment_of(manager, static_cast<char*>(block.data) + 5000);
  CHECK(segment.offset == 5000 && segment.bytes >= block.bytes);
  CHECK(table->attach(table->self, segment.fd, block.bytes, "test", &other, &error) == MX_OK);
  CHECK(other.data != block.data && static_cast<char*>(other.data)[9999] == 3);
  memory->free(memory->self, &block);
  CHECK(static_cast<char*>(other.data)[0] == 3);  // the first mapping is gone, the memory is not
  CHECK(segment_of(manager, other.data).inode == segment.inode);
  memory->free(memory->self, &other);
  mx_segment none{};
  CHECK(table->segment(table->self, &none, &none, &error) == MX_ERROR_VALUE);
}

void segments_of_many_threads() {
  const Manager manager(PoolType::kShared);
  const mx_storage_api* memory = manager.table();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        mx_block block{};
        mx_error error{};
        CHECK(memory->alloc(memory->self, kShared, 100 + 50 * static_cast<size_t>(t), "test", &block, &error) == MX_OK);
        std::memset(block.data, t, block.bytes);
        CHECK(segment_of(manager, block.data).offset == 0);
        memory->free(memory->self, &block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  mx_storage_stats stats{};
  mx_error error{};
  CHECK(memory->stats(memory->self, kShared, &stats, &error) == MX_OK && stats.bytes_in_use == 0);
}

}  // namespace

int main() {
  an_address_leads_to_its_segment_and_that_to_the_same_memory();
  segments_of_many_threads();
}
