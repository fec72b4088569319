// SPDX-License-Identifier: Apache-2.0
#include "mx_core/intern.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "mx_core/native_tests.hpp"

namespace {

void test_equal_texts_share_one_copy() {
  const std::string text = "Convolution";
  const char* first = mx::intern(text.c_str());
  CHECK(first != text.c_str() && std::strcmp(first, "Convolution") == 0);
  CHECK(mx::intern("Convolution") == first && mx::intern("Pooling") != first);
  CHECK(mx::intern(nullptr) == nullptr);
}

void test_a_child_never_finds_it_locked() {
  std::atomic<bool> ended{false};
  std::thread other([&] {
    for (int i = 0; !ended; ++i) mx::intern(std::to_string(i % 1000).c_str());
  });
  for (int i = 0; i < 30; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // a lock that is held for ever ends the child by a signal
      mx::intern("in the child");
      ::_exit(0);
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
  test_equal_texts_share_one_copy();
  test_a_child_never_finds_it_locked();
}
