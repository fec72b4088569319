// SPDX-License-Identifier: Apache-2.0
//
// Meetings of devices: every round has all parts, in the order of devices; who does not come fails it for all.
#include "common/rendezvous.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "mx_core/native_tests.hpp"
#include "mx_core/plan.hpp"

namespace {

using mx::cpu::Rendezvous;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kLong{60}, kShort{0.05};

void rounds_have_the_parts_of_all() {
  Rendezvous place("rounds");
  constexpr int32_t kDevices = 3;
  constexpr int kRounds = 200;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int32_t device = 0; device < kDevices; ++device) {
    threads.emplace_back([&, device] {
      for (int round = 0; round < kRounds; ++round) {
        const auto parts = place.join(device, {static_cast<double>(10 * round + device)}, kDevices, kLong).parts;
        int32_t expected = 0;
        for (const auto& member : *parts) {
          if (member.first != expected || member.second[0] != 10 * round + expected) ++wrong;
          ++expected;
        }
        if (expected != kDevices) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

template <class Body>
std::string failure(const Body& body) {
  try {
    body();
  } catch (const mx::Error& error) {
    return error.what();
  }
  return "";
}

void who_does_not_come_is_told() {
  Rendezvous place("layer");
  const std::string told = failure([&] { place.join(1, {1}, 2, kShort); });
  CHECK(told.find("[layer] 1 of 2 devices") == 0 && told.find("cpu(1)") != std::string::npos);
  CHECK(place.join(0, {3}, 1, kShort).parts->size() == 1);  // the next round is a new one
}

void parts_of_unequal_sizes_fail_for_all() {
  Rendezvous place("sizes");
  std::string first;
  std::thread other([&] { first = failure([&] { place.join(0, {1, 2}, 2, kLong); }); });
  std::string second = failure([&] { place.join(1, {1}, 2, kShort); });
  // Whoever came alone before the other was late; it comes again until they meet.
  if (second.find("different numbers") == std::string::npos) {
    second = failure([&] { place.join(1, {1}, 2, kLong); });
  }
  other.join();
  CHECK(first.find("different numbers of channels") != std::string::npos);
  CHECK(second.find("different numbers of channels") != std::string::npos);
}

void a_device_that_comes_again_waits_for_the_next_round() {
  Rendezvous place("twice");
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      place.join(0, {0}, 2, kLong);
      ++met;
    });
  }
  for (int round = 0; round < 2; ++round) CHECK(place.join(1, {1}, 2, kLong).parts->size() == 2);
  for (std::thread& thread : threads) thread.join();
  CHECK(met == 2);
}

// Returns once a wait of this place takes long.
class Waiting {
 public:
  Rendezvous::Wait wait() {
    return [this](const std::function<bool()>& over) {
      began_ = true;
      while (!over()) std::this_thread::yield();
    };
  }
  void until_begun() const {
    while (!began_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> began_{false};
};

void devices_that_expect_other_numbers_fail_at_once() {
  Rendezvous place("numbers");
  Waiting waiting;
  std::string first;
  std::thread other([&] { first = failure([&] { place.join(0, {1}, 3, kLong, waiting.wait()); }); });
  waiting.until_begun();
  const std::string second = failure([&] { place.join(1, {1}, 2, kLong); });
  other.join();
  CHECK(first == second && test::has(first, "[numbers] cpu(0) and cpu(1) expect 3 and 2 devices"));
}

void who_comes_again_and_has_no_patience_fails_alone() {
  Rendezvous place("again");
  Waiting waiting;
  size_t met = 0;
  std::thread other([&] { met = place.join(0, {1}, 2, kLong, waiting.wait()).parts->size(); });
  waiting.until_begun();
  CHECK(test::has(failure([&] { place.join(0, {1}, 2, kShort); }), "1 of 2 devices"));
  CHECK(place.join(1, {1}, 2, kLong).parts->size() == 2);
  other.join();
  CHECK(met == 2);
}

void the_child_of_a_fork_begins_anew() {
  Rendezvous& place = Rendezvous::of("fork");
  Waiting waiting;
  std::thread other([&] { place.join(0, {1}, 2, kLong, waiting.wait()); });
  waiting.until_begun();
  const pid_t child = fork();
  if (child == 0) {  // the thread that waits is not here
    const std::string told = failure([&] { place.join(1, {1}, 2, kShort); });
    const bool alone = test::has(told, "1 of 2 devices came within MX_SYNC_TIMEOUT: cpu(1)");
    const bool meets = place.join(0, {1}, 1, kShort).parts->size() == 1 && &Rendezvous::of("fork") == &place;
    _exit(alone && meets ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(place.join(1, {2}, 2, kLong).parts->size() == 2);
  other.join();
}

void steps_that_go_on_at_the_same_time_do_not_mix() {
  Rendezvous place("steps");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int32_t device = 0; device < 2; ++device)
    for (int64_t step = 0; step < 20; ++step)  // in any order
      threads.emplace_back([&, device, step] {
        const auto parts = place.join(device, {static_cast<double>(step)}, 2, kLong, {}, step).parts;
        for (const auto& member : *parts)
          if (parts->size() != 2 || member.second[0] != static_cast<double>(step)) ++wrong;
      });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

void a_round_has_a_number_that_all_of_it_get() {
  Rendezvous place("numbered"), elsewhere("numbered too");
  std::atomic<int64_t> other{0};
  std::vector<int64_t> numbers{elsewhere.join(0, {0}, 1, kLong).number};
  for (int i = 0; i < 5; ++i) {
    std::thread thread([&] { other = place.join(0, {0}, 2, kLong).number; });
    numbers.push_back(place.join(1, {0}, 2, kLong).number);
    thread.join();
    CHECK(other == numbers.back());
    for (size_t earlier = 0; earlier + 1 < numbers.size(); ++earlier) CHECK(numbers[earlier] < numbers.back());
  }
}

void one_name_is_one_place() {
  CHECK(&Rendezvous::of("a") == &Rendezvous::of("a"));
  CHECK(&Rendezvous::of("a") != &Rendezvous::of("b"));
}

}  // namespace

int main() {
  rounds_have_the_parts_of_all();
  who_does_not_come_is_told();
  parts_of_unequal_sizes_fail_for_all();
  a_device_that_comes_again_waits_for_the_next_round();
  devices_that_expect_other_numbers_fail_at_once();
  who_comes_again_and_has_no_patience_fails_alone();
  the_child_of_a_fork_begins_anew();
  steps_that_go_on_at_the_same_time_do_not_mix();
  a_round_has_a_number_that_all_of_it_get();
  one_name_is_one_place();
}
