// SPDX-License-Identifier: Apache-2.0
#include "mx_core/spin.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"

namespace {

template <class Lock>
void test_a_lock_excludes() {
  for (const int n : {1, 2, 3, 7, 11}) {
    Lock lock;
    int64_t counter = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < n; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 5000; ++k) {
          const std::lock_guard<Lock> guard(lock);
          ++counter;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(counter == int64_t{5000} * n);
  }
}

void test_spinning_in_vain_becomes_rare() {
  mx::SpinBudget spin;
  int64_t asked = 0;
  const auto never = [&] {
    ++asked;
    return false;
  };
  CHECK(!spin.spin_until(never) && asked > 1);
  int only_once = 0;
  for (int i = 0; i < 62; ++i) {
    asked = 0;
    CHECK(!spin.spin_until(never));
    if (asked == 1) ++only_once;
  }
  CHECK(only_once >= 56);  // 1, 3, 7, 15, then 31 times at a stretch
}

void test_what_comes_is_found() {
  mx::SpinBudget spin;
  int n = 0;
  CHECK(spin.spin_until([&] { return ++n == 3; }) && n == 3);
}

}  // namespace

int main() {
  test_a_lock_excludes<mx::SpinLock>();
  test_a_lock_excludes<mx::SpinMutex>();
  test_spinning_in_vain_becomes_rare();
  test_what_comes_is_found();
}
