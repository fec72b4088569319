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

// What runs ends; what waits for a thread, or behind it, never begins.
void what_is_queued_is_dropped_at_the_shut_down() {
  for (const int32_t bulk : {0, 4}) {
    const Table table(1);
    std::atomic<bool> open{false}, runs{false};
    std::atomic<int> began{0};
    auto alive = std::make_shared<int>(0);  // by what was pushed
    mx_variable *running = table.variable(), *queued = table.variable(), *behind = table.variable();
    table.push({{}, {running}}, [&](const mx_run_context&) -> mx_failure* {
      runs = true;
      while (!open) sleep_ms(1);
      return nullptr;
    });
    while (!runs) sleep_ms(1);
    const auto never = [&began, alive](const mx_run_context&) -> mx_failure* {
      ++began;
      return nullptr;
    };
    table->set_bulk_size(table.self(), bulk);
    for (int i = 0; i < 3; ++i) table.push({{}, {queued}}, never);
    for (int i = 0; i < 3; ++i) table.push({}, never);
    table->set_bulk_size(table.self(), 0);
    How certain{{queued}, {behind}};
    certain.property = MX_FN_NO_SKIP;
    table.push(certain, never);
    table.push({{running}, {}}, never);
    How first{{}, {}};
    first.property = MX_FN_CPU_PRIORITIZED;
    first.reads = {running};
    table.push(first, never);  // in a pool that is made after the shut-down
    std::string waited;
    std::thread waiter([&] { waited = table.wait(behind); });
    sleep_ms(20);
    table->notify_shutdown(table.self());
    waiter.join();
    CHECK(has(waited, "the engine was shut down before the operation began"));
    CHECK(table->pending(table.self()) == 3 && alive.use_count() == 4);  // what runs, and two behind it
    open = true;
    while (table->pending(table.self()) != 0) sleep_ms(1);
    CHECK(began == 0 && alive.use_count() == 2);
    CHECK(table.version(running) == 1 && table.wait(running).empty());
    for (mx_variable* v : {running, queued, behind}) table.remove(v);
  }
}

}  // namespace

int main() {
  return run({
      {"threads end and come back", threads_end_and_come_back},
      {"threads end late", threads_that_end_late_are_told},
      {"something is pending", what_is_pending_keeps_the_threads},
      {"dropped", what_is_queued_is_dropped_at_the_shut_down},
      {"shut down", what_was_shut_down_is_not_stopped},
  });
}
