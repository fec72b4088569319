// SPDX-License-Identifier: Apache-2.0
//
// Blocks in use that become shared, as another process sees them: through a mapping of the file.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "shared_pages.hpp"
#include "support.hpp"

using namespace mx::storage;

namespace {

constexpr mx_context kCpu{MX_CPU, 0};
constexpr size_t kBytes = (3 << 20) + 100;

mx_block alloc(Manager& manager, size_t bytes) {
  mx_block block{};
  mx_error error{};
  CHECK(manager.table()->alloc(&manager, kCpu, bytes, "test", &block, &error) == MX_OK);
  return block;
}

mx_segment segment_of(Manager& manager, const void* data) {
  const mx_shared_api* table = manager.sharing_table();
  mx_segment segment{};
  mx_error error{};
  CHECK(table->segment(table->self, data, &segment, &error) == MX_OK);
  return segment;
}

// What others see of the file of a manager.
class Other {
 public:
  explicit Other(Manager& manager) : segment_(segment_of(manager, nullptr)) {
    void* memory = mmap(nullptr, segment_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment_.fd, 0);
    CHECK(memory != MAP_FAILED);
    memory_ = static_cast<char*>(memory);
  }
  ~Other() { munmap(memory_, segment_.bytes); }
  char* at(const mx_segment& segment) const { return memory_ + segment.offset; }

 private:
  const mx_segment segment_;
  char* memory_;
};

void a_block_stays_where_it_is_and_others_see_it() {
  Manager manager(PoolType::kPooled);
  const Other other(manager);
  const mx_block block = alloc(manager, kBytes), second = alloc(manager, kBytes);
  auto* const data = static_cast<char*>(block.data);
  for (size_t i = 0; i < kBytes; ++i) data[i] = static_cast<char>(i % 251);
  const mx_segment place = segment_of(manager, data);
  for (size_t i = 0; i < kBytes; ++i) CHECK(data[i] == static_cast<char>(i % 251));
  CHECK(std::memcmp(other.at(place), data, kBytes) == 0);
  data[kBytes - 1] = 77;
  other.at(place)[5] = 78;
  CHECK(other.at(place)[kBytes - 1] == 77 && data[5] == 78);
  CHECK(segment_of(manager, data).offset == place.offset);
  std::memset(second.data, 9, kBytes);
  CHECK(segment_of(manager, second.data).offset >= place.offset + kBytes && data[7] == 7);
  manager.table()->free(&manager, &second);
  manager.table()->free(&manager, &block);
}

void the_least_block_that_can_be_shared_has_a_mebibyte() {
  Manager manager(PoolType::kPooled);
  const Other other(manager);
  const mx_block block = alloc(manager, 1 << 20), smaller = alloc(manager, (1 << 20) - 1);
  std::memset(block.data, 6, 1 << 20);
  CHECK(other.at(segment_of(manager, block.data))[(1 << 20) - 1] == 6);
  mx_segment segment{};
  mx_error error{};
  const mx_shared_api* table = manager.sharing_table();
  CHECK(table->segment(table->self, smaller.data, &segment, &error) == MX_ERROR_VALUE);
  manager.table()->free(&manager, &smaller);
  manager.table()->free(&manager, &block);
}

void a_recycled_block_is_shared_and_one_that_is_given_back_is_gone() {
  Manager manager(PoolType::kPooled);
  const Other other(manager);
  mx_block block = alloc(manager, kBytes);
  std::memset(block.data, 1, kBytes);
  const mx_segment place = segment_of(manager, block.data);
  const void* const before = block.data;
  manager.table()->free(&manager, &block);
  block = alloc(manager, kBytes);
  CHECK(block.data == before);
  std::memset(block.data, 2, kBytes);
  CHECK(other.at(place)[100] == 2);
  manager.table()->direct_free(&manager, &block);
  CHECK(other.at(place)[100] == 0);
  block = alloc(manager, kBytes);
  std::memset(block.data, 3, kBytes);
  const mx_segment again = segment_of(manager, block.data);
  CHECK(other.at(again)[100] == 3);
  manager.table()->free(&manager, &block);
  manager.table()->release_all(&manager, kCpu);
  CHECK(other.at(again)[100] == 0);
}

void other_memory_is_refused() {
  Manager manager(PoolType::kPooled);
  const mx_block small = alloc(manager, 1000), large = alloc(manager, kBytes);
  const mx_shared_api* table = manager.sharing_table();
  int mine = 0;
  for (const void* data : {static_cast<const void*>(&mine), static_cast<const void*>(small.data),
                           static_cast<const void*>(static_cast<char*>(large.data) + 4096)}) {
    mx_segment segment{};
    mx_error error{};
    CHECK(table->segment(table->self, data, &segment, &error) == MX_ERROR_VALUE);
  }
  mx_block block{};
  mx_error error{};
  const int file = segment_of(manager, nullptr).fd;
  CHECK(table->attach(table->self, file, 4096, "test", &block, &error) == MX_ERROR_UNSUPPORTED);
  manager.table()->free(&manager, &small);
  manager.table()->free(&manager, &large);
  for (const PoolType type : {PoolType::kBestFit, PoolType::kBuckets, PoolType::kNaive, PoolType::kShared}) {
    Manager without(type);
    CHECK(without.sharing_table() == nullptr);
  }
}

// Whole pages of the process.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(data_ != MAP_FAILED);
  }
  Pages(const Pages&) = delete;
  ~Pages() { munmap(data_, bytes_); }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  const size_t bytes_;
  void* data_;
};

// Parts of the file that are given back serve others: more goes through it than it has room for.
void a_file_is_never_used_up() {
  constexpr size_t kMiB = 1 << 20, kSpan = 32 * kMiB;
  SharedPages shared(kSpan);
  CHECK(shared.file().bytes == kSpan);
  for (size_t through = 0, turn = 0; through < 8 * kSpan; ++turn) {
    const Pages first((1 + turn % 7) * kMiB), second(5 * kMiB);
    std::memset(first.data(), static_cast<int>(turn % 100), first.bytes());
    const int64_t one = shared.share(first.data(), first.bytes()), two = shared.share(second.data(), second.bytes());
    CHECK(one >= 0 && two >= 0);
    CHECK(one + static_cast<int64_t>(first.bytes()) <= two || two + static_cast<int64_t>(second.bytes()) <= one);
    CHECK(static_cast<const char*>(first.data())[first.bytes() - 1] == static_cast<char>(turn % 100));
    CHECK(static_cast<const char*>(second.data())[0] == 0);  // nothing of what was there before
    shared.forget(first.data());
    shared.forget(second.data());
    through += first.bytes() + second.bytes();
  }
}

void a_file_that_is_full_refuses() {
  constexpr size_t kMiB = 1 << 20;
  SharedPages shared(8 * kMiB);
  const Pages large(7 * kMiB), fits(6 * kMiB), more(kMiB);
  CHECK(shared.share(large.data(), large.bytes()) == -1);
  CHECK(shared.share(fits.data(), fits.bytes()) >= 0);
  CHECK(shared.share(more.data(), more.bytes()) == -1);
  std::memset(more.data(), 1, kMiB);  // it stays as it was
  shared.forget(fits.data());
  CHECK(shared.share(more.data(), more.bytes()) >= 0);
  CHECK(static_cast<const char*>(more.data())[kMiB - 1] == 1);
  shared.forget(more.data());
}

void threads_share_at_once() {
  Manager manager(PoolType::kPooled);
  const Other other(manager);
  const mx_block common = alloc(manager, kBytes);
  std::memset(common.data, 5, kBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const mx_block block = alloc(manager, kBytes);
        std::memset(block.data, t, kBytes);
        const mx_segment place = segment_of(manager, block.data);
        CHECK(other.at(place)[0] == t && other.at(place)[kBytes - 1] == t);
        CHECK(other.at(segment_of(manager, common.data))[kBytes - 1] == 5);
        i % 2 == 0 ? manager.table()->free(&manager, &block) : manager.table()->direct_free(&manager, &block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  manager.table()->free(&manager, &common);
}

// What a child writes its parent does not see, and it does not take the parent's memory with it.
void a_child_has_its_own() {
  Manager manager(PoolType::kPooled);
  const Other other(manager);
  mx_block block = alloc(manager, kBytes);
  auto* const data = static_cast<char*>(block.data);
  std::memset(data, 1, kBytes);
  const mx_segment place = segment_of(manager, data);
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    bool fine = data[kBytes - 1] == 1;
    std::memset(data, 2, kBytes);
    const mx_segment own = segment_of(manager, data);  // in a file of its own
    fine = fine && own.inode != place.inode && data[0] == 2;
    manager.table()->direct_free(&manager, &block);
    ::_exit(fine ? 0 : 1);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(data[0] == 1 && data[kBytes - 1] == 1);
  CHECK(segment_of(manager, data).offset == place.offset && other.at(place)[0] == 1);
  data[0] = 4;
  CHECK(other.at(place)[0] == 4);
  manager.table()->free(&manager, &block);
}

}  // namespace

int main() {
  a_block_stays_where_it_is_and_others_see_it();
  the_least_block_that_can_be_shared_has_a_mebibyte();
  a_recycled_block_is_shared_and_one_that_is_given_back_is_gone();
  other_memory_is_refused();
  a_file_is_never_used_up();
  a_file_that_is_full_refuses();
  threads_share_at_once();
  a_child_has_its_own();
}
