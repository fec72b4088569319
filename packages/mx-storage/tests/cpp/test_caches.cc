// SPDX-License-Identifier: Apache-2.0
//
// What each thread keeps of the blocks that it frees.
#include <algorithm>
#include <thread>
#include <vector>

#include "small_pool.hpp"
#include "support.hpp"
#include "system_memory.hpp"

using namespace mx::storage;
using test::Memory;

namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

// One thread allocates what another frees: it meets the lock as seldom as that one does.
void one_visit_brings_what_another_visit_left() {
  for (const size_t bytes : {64UL, 5120UL, 10'240UL, 98'304UL, kSmallLimit}) {
    SmallPool pool;
    size_t freed = 0;
    for (; pool.counts().shared == 0; ++freed) {
      pool.grew(class_bytes(class_of(bytes)));
      pool.put(heap_alloc(bytes), bytes);
    }
    CHECK(freed == std::clamp<size_t>(256 * kKiB / bytes, 2, 64) + 1);  // one more than a thread keeps
    std::thread([&] {
      std::vector<void*> blocks(freed / 2);
      for (void*& block : blocks) CHECK((block = pool.take(bytes)) != nullptr);
      CHECK(pool.counts().shared == 2);
      for (void* block : blocks) pool.put(block, bytes);
    }).join();
  }
}

void the_end_of_a_thread_leaves_the_caches_of_the_others() {
  const Memory memory;
  memory.free(memory.alloc(512));
  std::thread([&] { memory.free(memory.alloc(1024)); }).join();
  CHECK(memory.stats().bytes_pooled == 512 + 1024);
  CHECK(memory.stats().allocations == 2);
  memory.release();
  CHECK(memory.stats().bytes_pooled == 0);
  memory.free(memory.alloc(512));
  CHECK(memory.stats().pool_hits == 0);
}

// A large block may be any of those that the thread freed last, not just the first or the last of them.
void the_others_stay_when_one_of_the_large_blocks_is_taken() {
  for (size_t taken = 0; taken < 5; ++taken) {
    const Memory memory;
    std::vector<mx_block> blocks;
    for (size_t i = 0; i < 5; ++i) blocks.push_back(memory.alloc((2 << i) * kMiB));
    for (const mx_block& block : blocks) memory.free(block);
    for (size_t i = 0; i < 5; ++i) {
      const mx_block& freed = blocks[(taken + i) % 5];
      CHECK(memory.alloc(freed.bytes).data == freed.data);
    }
    CHECK(memory.stats().pool_hits == 5 && memory.stats().bytes_pooled == 0);
    for (const mx_block& block : blocks) memory.direct_free(block);
  }
}

}  // namespace

int main() {
  return test::run({
      {"one_visit_brings_what_another_visit_left", one_visit_brings_what_another_visit_left},
      {"the_end_of_a_thread_leaves_the_caches_of_the_others", the_end_of_a_thread_leaves_the_caches_of_the_others},
      {"the_others_stay_when_one_of_the_large_blocks_is_taken", the_others_stay_when_one_of_the_large_blocks_is_taken},
  });
}
