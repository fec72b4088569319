// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "size_class.hpp"
#include "support.hpp"

using namespace mx::storage;
using test::Memory;

namespace {

void size_classes_are_tight() {
  CHECK(class_of(1) == 0);
  CHECK(class_of(kSmallLimit) == kClasses - 1);
  for (uint32_t i = 0; i < kClasses; ++i) {
    CHECK(class_bytes(i) % kAlignment == 0);
    CHECK(class_of(class_bytes(i)) == i);
    if (i > 0) CHECK(class_of(class_bytes(i - 1) + 1) == i);
    if (i > 3) CHECK(class_bytes(i) - class_bytes(i - 1) <= class_bytes(i) / 5);
  }
}

void blocks_are_disjoint_and_reused() {
  const Memory memory;
  std::vector<mx_block> blocks;
  for (size_t bytes : {1UL, 64UL, 65UL, 4096UL, kSmallLimit, kSmallLimit + 1, 5UL << 20}) {
    blocks.push_back(memory.alloc(bytes));
    std::memset(blocks.back().data, static_cast<int>(blocks.size()), bytes);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i].data);
    CHECK(bytes[0] == i + 1 && bytes[blocks[i].bytes - 1] == i + 1);
    memory.free(blocks[i]);
    const mx_block again = memory.alloc(blocks[i].bytes);
    CHECK(again.data == blocks[i].data);
    memory.direct_free(again);
  }
  CHECK(memory.stats().bytes_in_use == 0 && memory.stats().bytes_pooled == 0);
  CHECK(memory.stats().pool_hits == blocks.size());
}

void more_than_a_cache_holds_comes_back_through_the_centre() {
  const Memory memory;
  std::vector<mx_block> blocks;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) blocks.push_back(memory.alloc(256));
    for (const mx_block& block : blocks) memory.free(block);
    blocks.clear();
  }
  CHECK(memory.stats().pool_hits == 1000);
  CHECK(memory.stats().bytes_pooled == 256'000);
  memory.release();
  CHECK(memory.stats().bytes_pooled == 0);
}

void the_pool_is_bounded() {
  const Memory memory;
  for (size_t mib = 10; mib < 200; mib += 7) memory.free(memory.alloc(mib << 20));
  const mx_storage_stats stats = memory.stats();
  CHECK(stats.bytes_pooled <= stats.bytes_peak + stats.bytes_peak / 4 + (64 << 20));
}

void refusals_explain() {
  const Memory memory;
  mx_block block{};
  std::string text;
  CHECK(memory.try_alloc(~size_t{0}, &block, &text) == MX_ERROR_MEMORY);
  CHECK(text.find("18446744073709551615 bytes") != std::string::npos);
  CHECK(memory.try_alloc(1, &block, &text, {MX_GPU, 0}) == MX_ERROR_VALUE);
  CHECK(memory.try_alloc(1, &block, &text, {MX_CPU_SHARED, 0}) == MX_ERROR_UNSUPPORTED);
  CHECK(memory.try_alloc(1, &block, &text, {MX_CPU, -1}) == MX_ERROR_VALUE);
  memory->set_limit(memory.self(), test::kCpu, 1000);
  const mx_block held = memory.alloc(600);
  CHECK(memory.try_alloc(401, &block, &text) == MX_ERROR_MEMORY);
  CHECK(text.find("600 in use") != std::string::npos);
  CHECK(text.find("limit 1000") != std::string::npos);
  CHECK(text.find("test (600)") != std::string::npos);
  memory.free(memory.alloc(400));
  memory.free(held);
  CHECK(memory.stats().bytes_in_use == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A system that has no more: the pool is given back, the request tried again, then refused.
void the_system_runs_out() {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{size_t{1} << 30, size_t{1} << 30};
    CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
    const Memory memory;
    memory.free(memory.alloc(size_t{600} << 20));
    memory.free(memory.alloc(size_t{700} << 20));  // only without the pooled 600 MiB
    mx_block block{};
    std::string text;
    CHECK(memory.try_alloc(size_t{2} << 30, &block, &text) == MX_ERROR_MEMORY);
    CHECK(text.find("the system has no more") != std::string::npos);
    CHECK(memory.stats().bytes_in_use == 0);
    ::_exit(0);
  }
  int status = 1;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
}
#else
void the_system_runs_out() {}
#endif

void arenas_are_cut_and_grow_together() {
  const Memory memory(PoolType::kBestFit);
  constexpr size_t kMib = size_t{1} << 20;
  const mx_block a = memory.alloc(8 * kMib), b = memory.alloc(8 * kMib), c = memory.alloc(8 * kMib);
  CHECK(static_cast<char*>(a.data) + 8 * kMib == b.data);
  const mx_storage_stats cut = memory.stats();
  CHECK(cut.bytes_in_use == 24 * kMib && cut.bytes_pooled == 8 * kMib && cut.pool_hits == 2);
  memory.free(a);
  memory.free(c);
  memory.free(b);
  const mx_block whole = memory.alloc(32 * kMib);
  CHECK(whole.data == a.data);
  memory.free(whole);
  // the smallest hole that fits
  const mx_block small = memory.alloc(kMib), wall = memory.alloc(64), large = memory.alloc(4 * kMib),
                 end = memory.alloc(64);
  memory.free(large);
  memory.free(small);
  CHECK(memory.alloc(kMib - 100).data == small.data);
  memory.release();
  CHECK(memory.stats().bytes_pooled > 0);  // the arena has blocks in use
  memory.direct_free(wall);
  memory.free(end);
}

void sizes_are_rounded_to_buckets() {
  const Rounding powers{true, 4096, size_t{2} << 20, 20};
  for (const auto& [asked, size] : {std::pair<size_t, size_t>{1, 4096}, {4097, 8192}, {1 << 20, 1 << 20},
                                    {(1 << 20) + 1, 2 << 20}, {(5 << 20) - 7, 5 << 20}}) {
    CHECK(powers(asked) == size && powers(size) == size);
  }
  const Rounding pages{false, 4096, size_t{2} << 20, 24};
  for (const auto& [asked, size] : {std::pair<size_t, size_t>{1, 4096}, {4097, 8192}, {12288, 12288},
                                    {2 << 20, 2 << 20}, {(2 << 20) + 1, 4 << 20}}) {
    CHECK(pages(asked) == size && pages(size) == size);
  }
  for (const Rounding& rounding : {powers, pages}) {
    Memory memory(PoolType::kBuckets, rounding);
    const mx_block block = memory.alloc(5000);
    std::memset(block.data, 1, 5000);
    memory.free(block);
    CHECK(memory.stats().bytes_pooled == 8192);
    const mx_block again = memory.alloc(8192);
    CHECK(again.data == block.data && memory.stats().pool_hits == 1);
    memory.direct_free(again);
    CHECK(memory.stats().bytes_pooled == 0);
    for (size_t mib = 1; mib < 200; mib += 3) memory.free(memory.alloc(mib << 20));
    const mx_storage_stats stats = memory.stats();
    CHECK(stats.bytes_pooled <= stats.bytes_peak + stats.bytes_peak / 4 + (64 << 20));
  }
}

void a_refusal_names_the_largest_holders() {
  const Memory memory;
  const char* tags[] = {"a", "bb", "ccc", "dddd", "eeeee"};
  std::vector<mx_block> blocks(5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(memory.try_alloc(100 * (i + 1), &blocks[i], nullptr, test::kCpu, tags[i]) == MX_OK);
  }
  mx_block block{};
  std::string text;
  CHECK(memory.try_alloc(~size_t{0}, &block, &text) == MX_ERROR_MEMORY);
  CHECK(text.find("most is held by eeeee (500), dddd (400), ccc (300), bb (200)") != std::string::npos);
  CHECK(text.find(" a (") == std::string::npos);
  for (const mx_block& held : blocks) memory.free(held);
}

void many_tags() {
  const Memory memory;
  std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) names.push_back("tag" + std::to_string(i));
  std::vector<mx_block> blocks(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    CHECK(memory.try_alloc(i + 1, &blocks[i], nullptr, test::kCpu, names[i].c_str()) == MX_OK);
  }
  for (const mx_block& block : blocks) memory.free(block);
  CHECK(memory.stats().bytes_in_use == 0);
}

void a_tag_of_many_blocks_leaves_room_for_another() {
  const Memory memory;
  std::vector<mx_block> blocks(600);
  for (mx_block& block : blocks) CHECK(memory.try_alloc(10, &block, nullptr, test::kCpu, "often") == MX_OK);
  mx_block once{}, refused{};
  CHECK(memory.try_alloc(7, &once, nullptr, test::kCpu, "once") == MX_OK);
  std::string text;
  CHECK(memory.try_alloc(~size_t{0}, &refused, &text) == MX_ERROR_MEMORY);
  CHECK(text.find("most is held by often (6000), once (7)") != std::string::npos);
  for (const mx_block& block : blocks) memory.free(block);
  memory.free(once);
}

}  // namespace

int main() {
  return test::run({
      {"size_classes_are_tight", size_classes_are_tight},
      {"blocks_are_disjoint_and_reused", blocks_are_disjoint_and_reused},
      {"more_than_a_cache_holds", more_than_a_cache_holds_comes_back_through_the_centre},
      {"the_pool_is_bounded", the_pool_is_bounded},
      {"refusals_explain", refusals_explain},
      {"the_system_runs_out", the_system_runs_out},
      {"arenas_are_cut_and_grow_together", arenas_are_cut_and_grow_together},
      {"sizes_are_rounded_to_buckets", sizes_are_rounded_to_buckets},
      {"a_refusal_names_the_largest_holders", a_refusal_names_the_largest_holders},
      {"many_tags", many_tags},
      {"a_tag_of_many_blocks_leaves_room_for_another", a_tag_of_many_blocks_leaves_room_for_another},
  });
}
