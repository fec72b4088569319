// SPDX-License-Identifier: Apache-2.0
#include "system_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "mx_core/native_tests.hpp"

using namespace mx::storage;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Of this process, without asking for memory.
size_t address_space() {
  char text[64] = {};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0 && ::read(file, text, sizeof text - 1) > 0);
  ::close(file);
  return std::strtoull(text, nullptr, 10) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

void mappings_take_their_pages_and_no_more() {
  const size_t before = address_space();
  size_t mapped = 0;
  std::vector<std::pair<void*, size_t>> blocks;
  blocks.reserve(20);
  // Sizes that are no multiple of the alignment, so that some neighbours begin where they must not.
  for (size_t i = 0; i < 20; ++i) {
    const size_t bytes = kMiB + i * 700'001;
    blocks.emplace_back(map_pages(bytes), bytes);
    CHECK(blocks.back().first != nullptr);
    mapped += whole_pages(bytes);
    CHECK(address_space() == before + mapped);
  }
  for (const auto& [data, bytes] : blocks) unmap_pages(data, bytes);
  CHECK(address_space() == before);
}
#else
void mappings_take_their_pages_and_no_more() {}  // the sanitizers map memory of their own
#endif

void large_mappings_are_aligned_and_can_be_written_to_their_ends() {
  for (const size_t bytes : {kMiB + 1, 4 * kMiB - 1, 4 * kMiB, 4 * kMiB + 1, 7 * kMiB + 12'345}) {
    auto* data = static_cast<char*>(map_pages(bytes));
    CHECK(data != nullptr);
    if (bytes >= 4 * kMiB) CHECK(reinterpret_cast<uintptr_t>(data) % (2 * kMiB) == 0);
    const size_t last = whole_pages(bytes) - 1;
    CHECK(data[0] == 0 && data[last] == 0);
    data[0] = data[last] = 1;
    unmap_pages(data, bytes);
  }
}

void whole_pages_round_up() {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  CHECK(whole_pages(0) == 0 && whole_pages(1) == page && whole_pages(page) == page);
  CHECK(whole_pages(page + 1) == 2 * page);
}

}  // namespace

int main() {
  return test::run({
      {"mappings_take_their_pages_and_no_more", mappings_take_their_pages_and_no_more},
      {"large_mappings_are_aligned", large_mappings_are_aligned_and_can_be_written_to_their_ends},
      {"whole_pages_round_up", whole_pages_round_up},
  });
}
