// SPDX-License-Identifier: Apache-2.0
//
// Stopping: threads end, whether they did so in time is said, and later pushes make new ones.
#include <atomic>

#include "support.hpp"

using namespace test;

namespace {

std::atomic<int> ended{0};
std::atomic<bool> may_end{true};

EngineOptions counting() {
  EngineOptions options;
  options.limits.compute = 2;
  options.thread_ends = [] {
    while (!may_end) sleep_ms(1);
    ++ended;
  };
  return options;
}

bool stop(const Table& table, int64_t timeout_ms) {
  return static_cast<Engine*>(table.self())->lifecycle().stop(timeout_ms * 1'000'000);
}

void work(const Table& table) {
  table.push({}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
  CHECK(table.wait_all().empty());
}

void threads_end_and_come_back() {
  const Table table(counting());
  CHECK(stop(table, 10'000) && ended == 0);  // there are none
  for (int round = 1; round <= 3; ++round) {
    work(table);
    CHECK(ended == round - 1 && stop(table, 10'000) && ended == round);
  }
}

void threads_that_end_late_are_told() {
  const Table table(counting());
  work(table);
  const int before = ended;
  may_end = false;
  CHECK(!stop(table, 20) && ended == before);
  may_end = true;
  CHECK(stop(table, 10'000) && ended == before + 1);
  work(table);
}

void what_is_pending_keeps_the_threads() {
  const Table table(counting());
  std::atomic<bool> open{false};
  std::atomic<int> refused{0};
  const int before = ended;
  table.push({}, [&](const mx_run_context&) -> mx_failure* {
    refused += !stop(table, 1000);  // a thread cannot wait for itself
    while (!open) sleep_ms(1);
    return nullptr;
  });
  CHECK(!stop(table, 50) && ended == before && table->pending(table.self()) == 1);
  open = true;
  CHECK(stop(table, 10'000) && ended == before + 1 && refused == 1);
}

void what_was_shut_down_is_not_stopped() {
  const Table table(counting());
  work(table);
  static_cast<Engine*>(table.self())->lifecycle().notify_shutdown();
  CHECK(!stop(table, 1000));
}

}  // namespace

int main() {
  return run({
      {"threads end and come back", threads_end_and_come_back},
      {"threads end late", threads_that_end_late_are_told},
      {"something is pending", what_is_pending_keeps_the_threads},
      {"shut down", what_was_shut_down_is_not_stopped},
  });
}
