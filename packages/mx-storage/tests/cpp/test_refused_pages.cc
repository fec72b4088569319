// SPDX-License-Identifier: Apache-2.0
//
// Blocks that the system does not let become shared stay as they are, and may be shared when it does.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support.hpp"

namespace {

constexpr size_t kBytes = 3 << 20;

// What the system refuses.
struct {
  bool files = false, pages = false, mappings = false;
} refused;

}  // namespace

// The linker has the calls of the system come here.
extern "C" {

void* __real_mmap(void* at, size_t bytes, int access, int flags, int file, off_t offset);
int __real_fallocate(int file, int mode, off_t offset, off_t bytes);
int __real_memfd_create(const char* name, unsigned flags);

void* __wrap_mmap(void* at, size_t bytes, int access, int flags, int file, off_t offset) {
  constexpr int kInPlace = MAP_SHARED | MAP_FIXED;
  if (!refused.mappings || (flags & kInPlace) != kInPlace) return __real_mmap(at, bytes, access, flags, file, offset);
  errno = ENOMEM;  // as where the process has too many mappings
  return MAP_FAILED;
}

int __wrap_fallocate(int file, int mode, off_t offset, off_t bytes) {
  if (!refused.pages || mode != 0) return __real_fallocate(file, mode, offset, bytes);
  errno = ENOSPC;
  return -1;
}

int __wrap_memfd_create(const char* name, unsigned flags) {
  if (!refused.files) return __real_memfd_create(name, flags);
  errno = EMFILE;
  return -1;
}

}  // extern "C"

namespace {

using mx::storage::Manager;
using mx::storage::PoolType;

mx_block filled(Manager& manager, char value) {
  mx_block block{};
  mx_error error{};
  CHECK(manager.table()->alloc(&manager, test::kCpu, kBytes, "test", &block, &error) == MX_OK);
  std::memset(block.data, value, kBytes);
  return block;
}

int32_t share(Manager& manager, const void* data, mx_segment* segment) {
  const mx_shared_api* table = manager.sharing_table();
  mx_error error{};
  return table->segment(table->self, data, segment, &error);
}

bool holds(const void* data, char value) {
  const auto* bytes = static_cast<const char*>(data);
  for (size_t i = 0; i < kBytes; ++i) {
    if (bytes[i] != value) return false;
  }
  return true;
}

blkcnt_t pages_of(int file) {
  struct stat found {};
  CHECK(::fstat(file, &found) == 0);
  return found.st_blocks;
}

// Whether a block is in the file where its segment says.
void check_shared(Manager& manager, const mx_block& block, char value) {
  mx_segment place{};
  CHECK(share(manager, block.data, &place) == MX_OK && holds(block.data, value));
  static_cast<char*>(block.data)[kBytes - 1] = 77;
  char seen = 0;
  CHECK(::pread(place.fd, &seen, 1, static_cast<off_t>(place.offset + kBytes - 1)) == 1 && seen == 77);
  static_cast<char*>(block.data)[kBytes - 1] = value;
}

void a_block_stays_as_it_is(bool& what) {
  Manager manager(PoolType::kPooled);
  const mx_block first = filled(manager, 1), second = filled(manager, 2);
  mx_segment file{}, segment{};
  CHECK(share(manager, nullptr, &file) == MX_OK);
  for (int tries = 0; tries < 3; ++tries) {
    what = true;
    CHECK(share(manager, first.data, &segment) == MX_ERROR_VALUE);
    what = false;
    CHECK(holds(first.data, 1) && pages_of(file.fd) == 0);  // nothing is left in the file
  }
  what = true;
  const pid_t child = ::fork();  // which has nothing to make its own
  CHECK(child >= 0);
  if (child == 0) ::_exit(holds(first.data, 1) ? 0 : 1);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  what = false;
  check_shared(manager, second, 2);
  check_shared(manager, first, 1);
  manager.table()->free(&manager, &first);
  manager.table()->free(&manager, &second);
}

void without_a_file_nothing_is_shared() {
  Manager manager(PoolType::kPooled);
  const mx_block block = filled(manager, 3);
  mx_segment segment{};
  refused.files = true;
  CHECK(share(manager, nullptr, &segment) == MX_ERROR_MEMORY);
  CHECK(share(manager, block.data, &segment) == MX_ERROR_MEMORY);
  refused.files = false;
  CHECK(holds(block.data, 3));
  check_shared(manager, block, 3);
  manager.table()->free(&manager, &block);
}

// With `ulimit -v` blocks are shared where they are: that takes no more addresses.  Those who would map the whole file
// cannot.
void with_few_addresses_blocks_are_shared() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    Manager manager(PoolType::kPooled);
    const mx_block block = filled(manager, 4);
    const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
    CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
    mx_block large{};
    mx_error error{};
    CHECK(manager.table()->alloc(&manager, test::kCpu, size_t{5} << 30, "test", &large, &error) == MX_ERROR_MEMORY);
    check_shared(manager, block, 4);
    mx_segment file{};
    CHECK(share(manager, nullptr, &file) == MX_OK);
    void* const all =
        ::mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.fd, 0);
    CHECK(all == MAP_FAILED && errno == ENOMEM);
    manager.table()->free(&manager, &block);
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

}  // namespace

int main() {
  a_block_stays_as_it_is(refused.mappings);
  a_block_stays_as_it_is(refused.pages);
  without_a_file_nothing_is_shared();
  with_few_addresses_blocks_are_shared();
}
