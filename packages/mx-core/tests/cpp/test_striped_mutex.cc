// SPDX-License-Identifier: Apache-2.0
#include "mx_core/striped_mutex.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"

namespace {

struct alignas(64) Object {
  int first = 0, second = 0;  // equal while nobody holds the mutex
};
using Mutex = mx::StripedMutex<Object>;

std::array<Object, 40> objects;

void test_objects_share_some() {
  std::set<std::mutex*> found;
  for (Object& object : objects) found.insert(&Mutex::of(&object));
  CHECK(found.size() == 16);
  CHECK(&Mutex::of(&objects[0]) == &Mutex::of(&objects[0]) && &Mutex::of(&objects[0]) == &Mutex::of(&objects[0].second));
  CHECK(&mx::StripedMutex<int>::of(&objects[0]) != &Mutex::of(&objects[0]));
}

void change(Object& object) {
  const std::lock_guard<std::mutex> lock(Mutex::of(&object));
  ++object.first;
  std::this_thread::yield();
  ++object.second;
}

void test_a_child_never_finds_one_locked_and_nothing_half_changed() {
  std::atomic<bool> ended{false};
  std::vector<std::thread> others;
  for (int thread = 0; thread < 2; ++thread) {
    others.emplace_back([&ended] {
      while (!ended)
        for (Object& object : objects) change(object);
    });
  }
  for (int i = 0; i < 30; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // a lock that is held for ever ends the child by a signal
      for (Object& object : objects) {
        if (object.first != object.second) ::_exit(1);
        change(object);
      }
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  ended = true;
  for (std::thread& other : others) other.join();
}

}  // namespace

int main() {
  test_objects_share_some();
  test_a_child_never_finds_one_locked_and_nothing_half_changed();
}
