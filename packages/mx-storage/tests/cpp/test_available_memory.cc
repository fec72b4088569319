// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "available_memory.hpp"
#include "support.hpp"
#include "system_memory.hpp"

using namespace mx::storage;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A small tree of files that stands for the system's.
class Root {
 public:
  Root() {
    char name[] = "/tmp/mx_storage_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Root() { static_cast<void>(std::system(("rm -rf " + path_).c_str())); }
  void write(const std::string& file, const std::string& text) const {
    for (size_t at = 1; (at = file.find('/', at)) != std::string::npos; ++at) {
      ::mkdir((path_ + file.substr(0, at)).c_str(), 0700);
    }
    std::ofstream(path_ + file) << text;
  }
  uint64_t available() const { return available_memory(path_.c_str()); }

 private:
  std::string path_;
};

void a_system_that_does_not_say_has_no_bound() { CHECK(Root().available() == UINT64_MAX); }

void memory_and_swap_of_the_machine() {
  const Root root;
  root.write("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:  2048 kB\nSwapFree: 1024 kB\n");
  CHECK(root.available() == 3 * kMiB);
}

void the_tightest_of_nested_groups_counts() {
  const Root root;
  root.write("/proc/meminfo", "MemAvailable: 999999 kB\n");
  root.write("/proc/self/cgroup", "0::/a/b\n");
  root.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  root.write("/sys/fs/cgroup/a/b/memory.current", "1000\n");
  CHECK(root.available() == 999999 * 1024ULL);
  root.write("/sys/fs/cgroup/a/memory.max", "10485760\n");
  root.write("/sys/fs/cgroup/a/memory.current", "5242880\n");
  root.write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1048576\n");
  CHECK(root.available() == 6 * kMiB);
  root.write("/sys/fs/cgroup/a/memory.current", "99999999\n");
  root.write("/sys/fs/cgroup/a/memory.stat", "");
  CHECK(root.available() == 0);
}

void groups_of_the_first_version() {
  const Root root;
  root.write("/proc/self/cgroup", "3:cpuset:/\n4:memory:/job\n0::/\n");
  root.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4194304\n");
  root.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1048576\n");
  CHECK(root.available() == 3 * kMiB);
}

void a_group_that_says_half_has_no_bound() {
  const Root root;
  root.write("/proc/meminfo", "MemAvailable: 2048 kB\n");
  root.write("/proc/self/cgroup", "0::/a\n");
  root.write("/sys/fs/cgroup/a/memory.max", "1048576\n");
  CHECK(root.available() == 2 * kMiB);
  root.write("/sys/fs/cgroup/a/memory.current", "1048575\n");
  CHECK(root.available() == 1);
}

void large_mappings_are_asked_for() {
  const auto none = []() noexcept { return uint64_t{0}; };
  const auto some = []() noexcept { return uint64_t{300} << 20; };
  CHECK(can_be_written((size_t{256} << 20) - 1, none) && !can_be_written(size_t{256} << 20, none));
  CHECK(can_be_written(size_t{300} << 20, some) && !can_be_written((size_t{300} << 20) + 1, some));
}

void what_could_not_be_written_is_refused_and_says_why() {
  if (available_memory() > uint64_t{1} << 45) return;  // this system does not say
  for (PoolType type : {PoolType::kPooled, PoolType::kBestFit, PoolType::kNaive}) {
    const test::Memory memory(type);
    mx_block block{};
    std::string message;
    CHECK(memory.try_alloc(available_memory() + (uint64_t{1} << 33), &block, &message) == MX_ERROR_MEMORY);
    CHECK(message.find("the system has no more (") != std::string::npos);
    CHECK(memory.stats().bytes_in_use == 0);
  }
}

}  // namespace

int main() {
  a_system_that_does_not_say_has_no_bound();
  memory_and_swap_of_the_machine();
  the_tightest_of_nested_groups_counts();
  groups_of_the_first_version();
  a_group_that_says_half_has_no_bound();
  large_mappings_are_asked_for();
  what_could_not_be_written_is_refused_and_says_why();
}
