// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <thread>

#include "support.hpp"

namespace test {
namespace {

using mx::cuda::class_bytes;
using mx::cuda::PoolType;
constexpr PoolType kPools[] = {PoolType::kPooled, PoolType::kBestFit, PoolType::kNaive};

void classes_lose_little() {
  size_t before = 0;
  for (size_t bytes = 1; bytes < (size_t{8} << 20); bytes += bytes / 7 + 1) {
    const size_t size = class_bytes(bytes);
    CHECK(size >= bytes && size >= before && size % 64 == 0);
    if (bytes > 512 && bytes <= (size_t{1} << 20)) CHECK(size - bytes <= size / 4);
    if (bytes > (size_t{1} << 20)) CHECK(size % (size_t{2} << 20) == 0);
    before = size;
  }
}

void freed_memory_is_used_again() {
  for (const PoolType pool : {PoolType::kPooled, PoolType::kBestFit}) {
    const Memory memory(pool);
    const mx_block first = memory.alloc(100'000);
    memory.free(first);
    CHECK(memory.stats().bytes_pooled >= 100'000 && memory.stats().bytes_in_use == 0);
    const mx_block second = memory.alloc(99'000);
    CHECK(second.data == first.data && memory.stats().pool_hits == 1);
    memory->direct_free(memory.self(), &second);
    CHECK(memory.stats().bytes_pooled == 0 && fake_used(0) == 0);
  }
}

void best_fit_cuts_and_joins() {
  const Memory memory(PoolType::kBestFit);
  std::vector<mx_block> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(memory.alloc(1 << 20));
  CHECK(fake_used(0) == size_t{32} << 20);
  for (const int i : {1, 3, 2, 0, 7, 5, 6, 4}) memory.free(blocks[static_cast<size_t>(i)]);
  const mx_block whole = memory.alloc(size_t{32} << 20);
  CHECK(fake_used(0) == size_t{32} << 20);
  memory.free(whole);
  memory->release_all(memory.self(), kGpu);
  CHECK(fake_used(0) == 0);
}

// The pool goes back to the device before the device is said to be full.
void memory_runs_out_with_an_explanation() {
  for (const PoolType pool : kPools) {
    const Memory memory(pool);
    memory.free(memory.alloc(size_t{200} << 20));
    const mx_block held = memory.alloc(size_t{150} << 20);
    const std::string said = memory.refusal(size_t{120} << 20);
    // what best fit cut off its arena stays pooled
    const char* pooled = pool == PoolType::kBestFit ? "52428800 pooled" : "0 pooled";
    CHECK(has(said, "[storage] gpu(0): cannot allocate 125829120 bytes for test, the device has no "
                    "more: 157286400 in use, "));
    CHECK(has(said, pooled) && has(said, ", limit none; most is held by test (157286400)"));
    CHECK(has(memory.refusal(size_t{1} << 60), "no device has that much"));
    memory->set_limit(memory.self(), kGpu, size_t{160} << 20);
    CHECK(has(memory.refusal(size_t{20} << 20), "the limit is reached"));
    CHECK(memory.stats().bytes_limit == size_t{160} << 20);
    memory.free(held);
    CHECK(memory.stats().bytes_peak == size_t{200} << 20);
    memory->reset_peak(memory.self(), kGpu);
    CHECK(memory.stats().bytes_peak == 0);
  }
  CHECK(fake_used(0) == 0);
}

// What is pooled does not fill the device, whose other users find their share.
void a_reserve_is_left() {
  for (const PoolType pool : {PoolType::kPooled, PoolType::kBestFit}) {
    const Memory memory(pool, MX_GPU, 25);
    memory.free(memory.alloc(size_t{100} << 20));
    const mx_block fits = memory.alloc(size_t{92} << 20);  // from the pool
    CHECK(fake_used(0) == size_t{100} << 20);
    const mx_block small = memory.alloc(size_t{40} << 20);
    memory.free(fits);
    CHECK(memory.stats().bytes_pooled >= size_t{92} << 20);
    const mx_block large = memory.alloc(size_t{110} << 20);  // 256 - 140 - 110 is less than 64
    CHECK(memory.stats().bytes_pooled == 0 && fake_used(0) == size_t{150} << 20);
    memory.free(small);
    memory.free(large);
  }
}

void a_failing_driver_is_told() {
  const Memory memory;
  fake_fail("cuMemAlloc_v2", 201, 0);
  CHECK(has(memory.refusal(10), "[gpu(0)] cuMemAlloc: CUDA_ERROR_INVALID_CONTEXT (201)"));
  fake_fail("cuMemAlloc_v2", 2, 0);  // once: the second attempt passes
  memory.free(memory.alloc(10));
  CHECK(has(memory.refusal(10, kCpu), "[storage] cpu(0): expected gpu(0)"));
  CHECK(has(memory.refusal(10, {MX_GPU, 9}), "there is no gpu(9)"));
}

void pinned_memory_is_host_memory() {
  const Memory memory(PoolType::kPooled, MX_CPU_PINNED);
  const mx_context context{MX_CPU_PINNED, 0};
  const mx_block block = memory.alloc(5000, context);
  std::memset(block.data, 7, block.bytes);
  CHECK(fake_pinned() >= 5000);
  memory.free(block);
  memory->release_all(memory.self(), context);
  CHECK(fake_pinned() == 0 && memory.stats(context).bytes_in_use == 0);
}

void threads_get_memory_of_their_own() {
  for (const PoolType pool : kPools) {
    const Memory memory(pool);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&memory, t] {
        std::mt19937 random(t);
        std::vector<mx_block> held;
        for (int i = 0; i < 300; ++i) {
          if (!held.empty() && random() % 2 == 0) {
            memory.free(held.back());
            held.pop_back();
          } else {
            held.push_back(memory.alloc(1 + random() % 70'000));
            // the fake's memory is the host's after a mark
            auto address = reinterpret_cast<uintptr_t>(held.back().data) & ~kFakeDeviceBit;
            std::memset(reinterpret_cast<void*>(address), static_cast<int>(t), held.back().bytes);
          }
        }
        for (const mx_block& block : held) memory.free(block);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(memory.stats().bytes_in_use == 0);
  }
  CHECK(fake_used(0) == 0);
}

}  // namespace
}  // namespace test

int main() {
  using namespace test;
  return run_healing({{"classes lose little", classes_lose_little},
              {"freed memory is used again", freed_memory_is_used_again},
              {"best fit cuts and joins", best_fit_cuts_and_joins},
              {"memory runs out", memory_runs_out_with_an_explanation},
              {"a reserve is left", a_reserve_is_left},
              {"a failing driver is told", a_failing_driver_is_told},
              {"pinned memory is host memory", pinned_memory_is_host_memory},
              {"threads get memory of their own", threads_get_memory_of_their_own}});
}
