// SPDX-License-Identifier: Apache-2.0
#include "onednn/frame_pool.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "mx_core/native_tests.hpp"

namespace {

using Pool = mx::cpu::FramePool<int>;

void test_a_frame_belongs_to_one_and_comes_back() {
  int made = 0;
  Pool pool([&made] { return made++; }, 2);
  CHECK(made == 2);
  {
    Pool::Lease one = pool.take(), two = pool.take(), three = pool.take();
    CHECK(made == 3 && *one != *two && *two != *three && *one != *three);
    Pool::Lease moved = std::move(three);
    CHECK(*moved == 2);
  }
  const Pool::Lease one = pool.take(), two = pool.take(), three = pool.take();
  CHECK(made == 3);
}

void test_a_child_never_finds_it_locked() {
  std::atomic<int> made{0};
  Pool pool([&made] { return made++; }, 1);
  std::atomic<bool> ended{false};
  std::thread other([&] {
    while (!ended) {
      const Pool::Lease lease = pool.take(), second = pool.take();
    }
  });
  for (int i = 0; i < 30; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // a lock that is held for ever ends the child by a signal
      const Pool::Lease lease = pool.take(), second = pool.take();
      ::_exit(*lease == *second ? 1 : 0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  ended = true;
  other.join();
}

}  // namespace

int main() {
  test_a_frame_belongs_to_one_and_comes_back();
  test_a_child_never_finds_it_locked();
}
