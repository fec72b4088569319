// SPDX-License-Identifier: Apache-2.0
//
// Back-pressure: how much work is in front of others, and who is held back for how long.
#include <algorithm>
#include <atomic>
#include <random>

#include "support.hpp"

using namespace test;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Body lasting(int milliseconds) {
  return [milliseconds](const mx_run_context&) -> mx_failure* {
    if (milliseconds > 0) sleep_ms(milliseconds);
    return nullptr;
  };
}

Body until(std::atomic<bool>& open) {
  return [&open](const mx_run_context&) -> mx_failure* {
    while (!open) sleep_ms(1);
    return nullptr;
  };
}

// Pushes from a thread of its own until this goes.
class Pusher {
 public:
  Pusher(const Table& table, How how, Body body) : thread_([this, &table, how, body] {
    while (!ended_) {
      table.push(how, body);
      most_ = std::max<uint64_t>(most_, table->pending(table.self()));
    }
  }) {}
  ~Pusher() {
    ended_ = true;
    thread_.join();
  }
  // What was the most that was pending since the last call.
  uint64_t most_pending() { return most_.exchange(0); }

 private:
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> most_{0};
  std::thread thread_;
};

void a_read_waits_for_a_second_of_large_operations() {
  const Table table(1);
  mx_variable* v = table.variable();
  {
    Pusher pusher(table, {{}, {v}}, lasting(15));
    sleep_ms(500);
    CHECK(pusher.most_pending() <= 256 + 64);  // nothing was known of them
    while (table->pending(table.self()) > 80) sleep_ms(1);
    pusher.most_pending();
    for (int i = 0; i < 2; ++i) {
      const auto start = Clock::now();
      CHECK(table.wait(v).empty());
      CHECK(seconds_since(start) < 5);
      CHECK(pusher.most_pending() <= 2 * 67);  // a second of it, and what comes and goes
    }
  }
  CHECK(table.wait_all().empty());
  table.remove(v);
}

// However far ahead others are: a read of what is ready takes no time.
void who_only_reads_is_not_held() {
  const Table table(1);
  mx_variable *v = table.variable(), *ready = table.variable();
  {
    Pusher pusher(table, {{}, {v}}, lasting(10));
    while (table->pending(table.self()) < 200) sleep_ms(1);
    int reads = 0;
    const auto start = Clock::now();
    for (int i = 0; i < 400; ++i) {
      mx_failure* failure = nullptr;
      mx_error error{};
      CHECK(table->read_variable_while(
                table.self(), ready, [](void* n) { ++*static_cast<int*>(n); }, &reads, 1'000'000,
                [](void*) -> int32_t { return 1; }, nullptr, &failure, &error) == MX_OK);
      sleep_ms(1);
    }
    CHECK(reads == 400 && seconds_since(start) < 4);
  }
  CHECK(table.wait_all().empty());
  table.remove(v);
  table.remove(ready);
}

void small_operations_may_be_many() {
  const Table table(1);
  uint64_t most = 0;
  for (int round = 0; round < 50 && most < 300; ++round) {
    Pusher pusher(table, {}, lasting(0));
    sleep_ms(20);
    most = std::max(most, pusher.most_pending());
  }
  CHECK(most <= 2048 + 64);
  CHECK(table.wait_all().empty());
}

// One thread waits for everything, which may take long; others go on meanwhile.
void who_pushes_while_another_waits_for_everything_goes_on() {
  for (const bool naive : {false, true}) {
    const Table table(2, naive);
    std::atomic<bool> open{false}, runs{false};
    mx_variable *busy = table.variable(), *v = table.variable();
    std::thread first([&] {
      table.push({{}, {busy}}, [&](const mx_run_context& run) -> mx_failure* {
        runs = true;
        return until(open)(run);
      });
    });
    while (!runs) sleep_ms(1);
    std::thread waiter([&] { table.quiet(); });
    sleep_ms(20);
    const auto start = Clock::now();
    for (int i = 0; i < 400; ++i) {
      table.push({{}, {v}}, lasting(0));
      if (i % 10 == 0) CHECK(table.wait(v).empty());
      if (!naive) table.push({{}, {busy}}, lasting(0));
    }
    CHECK(seconds_since(start) < 8);
    open = true;
    first.join();
    waiter.join();
    CHECK(table.wait_all().empty());
    for (mx_variable* variable : {busy, v}) table.remove(variable);
  }
}

// All kinds of operations from many threads, while others wait for everything, hold pushes back as a fork does, and
// shut the engine down in the end: nothing hangs, and what was pushed ends once.
void everything_at_once() {
  constexpr int kPushers = 4;
  for (const int workers : {1, 3}) {
    const Table table(workers);
    auto& lifecycle = static_cast<Engine*>(table.self())->lifecycle();
    std::atomic<bool> ended{false};
    std::atomic<int> alive{0};
    const auto token = [&alive] {  // which a body holds
      ++alive;
      return std::shared_ptr<void>(nullptr, [&alive](void*) { --alive; });
    };
    std::vector<mx_variable*> variables;
    for (int i = 0; i < 6; ++i) variables.push_back(table.variable());
    std::vector<std::thread> threads;
    for (int t = 0; t < kPushers; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        mx_error error{};
        while (true) {
          How how;
          how.writes = {variables[random() % 3]};
          how.reads = {variables[3 + random() % 3]};
          if (random() % 4 == 0) how.flags = MX_PUSH_INLINE;
          if (random() % 8 == 0) how.priority = 1;
          const unsigned kind = random() % 100;
          const auto hold = token();
          const auto body = [&table, kind, hold, variables](const mx_run_context&) -> mx_failure* {
            if (kind == 0) sleep_ms(2);
            mx_error refused{};
            if (kind < 5) table.try_push({{variables[0]}, {}}, [hold](const mx_run_context&) -> mx_failure* {
              return nullptr;
            }, nullptr, &refused);
            return nullptr;
          };
          if (table.try_push(how, body, nullptr, &error) != MX_OK) break;
          if (kind == 10) table.remove(table.variable());
          if (kind == 11) {
            mx_failure* failure = nullptr;
            table->wait_for_variable(table.self(), how.writes[0], 0, 1'000'000, &failure, &error);
            CHECK(failure == nullptr || failure->code == MX_ERROR_SHUTDOWN);
            if (failure != nullptr) failure->release(failure);
          }
        }
        CHECK(error.code == MX_ERROR_SHUTDOWN);
      });
    }
    threads.emplace_back([&] {
      while (!ended) {
        mx_error error{};
        table->wait_for_all(table.self(), 5'000'000, nullptr, &error);
      }
    });
    threads.emplace_back([&] {
      while (!ended) {
        if (lifecycle.hold_for_fork()) {
          static_cast<Engine*>(table.self())->waiting().drain(100'000'000);
          lifecycle.try_close_for_fork(false);
          lifecycle.open_after_fork();
        }
        sleep_ms(3);
      }
    });
    sleep_ms(600);
    table->notify_shutdown(table.self());
    ended = true;
    for (auto& thread : threads) thread.join();
    while (table->pending(table.self()) != 0) sleep_ms(1);
    CHECK(alive == 0);
    for (mx_variable* v : variables) table.remove(v);
  }
}

}  // namespace

int main() {
  return run({
      {"large operations", a_read_waits_for_a_second_of_large_operations},
      {"reads", who_only_reads_is_not_held},
      {"small operations", small_operations_may_be_many},
      {"waits for everything", who_pushes_while_another_waits_for_everything_goes_on},
      {"everything at once", everything_at_once},
  });
}
