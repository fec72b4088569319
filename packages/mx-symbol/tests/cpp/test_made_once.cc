// SPDX-License-Identifier: Apache-2.0
//
// What is looked up once for the life of the process.
#include "made_once.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include "mx_core/native_tests.hpp"

using mx::symbol::made_once;

namespace {

struct Counted {
  static inline std::atomic<int> living{0};
  int value;

  explicit Counted(int v) : value(v) { ++living; }
  Counted(Counted&& other) noexcept : value(other.value) { ++living; }
  ~Counted() { --living; }
};

void the_first_result_stays() {
  std::atomic<const Counted*> place{nullptr};
  int asked = 0;
  const auto make = [&] { return Counted(++asked); };
  const Counted& first = made_once(place, make);
  const Counted& second = made_once(place, make);
  CHECK(asked == 1 && &first == &second && first.value == 1);
  CHECK(Counted::living == 1);
  delete place.load();
}

void one_that_fails_is_asked_again() {
  std::atomic<const Counted*> place{nullptr};
  bool failed = false;
  try {
    made_once(place, []() -> Counted { throw std::runtime_error("not yet"); });
  } catch (const std::runtime_error&) {
    failed = true;
  }
  CHECK(failed && place == nullptr && Counted::living == 0);
  CHECK(made_once(place, [] { return Counted(7); }).value == 7);
  delete place.load();
}

// As when `make` imports a module, hands the GIL to another thread, and that one is done first.
void of_two_at_a_time_both_get_the_first_that_is_done() {
  std::atomic<const Counted*> place{nullptr};
  const Counted* other = nullptr;
  const Counted& found = made_once(place, [&] {
    other = &made_once(place, [] { return Counted(1); });
    return Counted(2);
  });
  CHECK(&found == other && found.value == 1);
  CHECK(Counted::living == 1);
  delete place.load();
}

void several_threads_get_one() {
  std::atomic<const Counted*> place{nullptr};
  std::array<const Counted*, 4> found{};
  std::atomic<size_t> ready{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      ready.fetch_add(1);
      while (ready.load() < found.size()) std::this_thread::yield();
      found[i] = &made_once(place, [i] { return Counted(static_cast<int>(i)); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Counted* each : found) CHECK(each == place.load());
  CHECK(Counted::living == 1);
  delete place.load();
}

}  // namespace

int main() {
  the_first_result_stays();
  one_that_fails_is_asked_again();
  of_two_at_a_time_both_get_the_first_that_is_done();
  for (int round = 0; round < 100; ++round) several_threads_get_one();
  std::puts("ok");
  return 0;
}
