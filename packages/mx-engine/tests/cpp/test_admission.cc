// SPDX-License-Identifier: Apache-2.0
//
// Who may push when: threads that are far ahead are held back, nobody for ever; the end of a process.
#include <atomic>

#include "support.hpp"

using namespace test;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

mx_failure* work_a_moment(const mx_run_context&) {
  const auto end = Clock::now() + std::chrono::microseconds(20);
  while (Clock::now() < end) {
  }
  return nullptr;
}

// Pushes without end until told to stop; what is the most that was pending.
class EndlessPusher {
 public:
  explicit EndlessPusher(const Table& table) : thread_([this, &table] { main(table); }) {}
  ~EndlessPusher() {
    ended_ = true;
    thread_.join();
  }
  uint64_t pushed() const { return pushed_; }
  uint64_t most_pending() const { return most_pending_; }

 private:
  void main(const Table& table) {
    while (!ended_) {
      table.push({}, work_a_moment);
      ++pushed_;
      const uint64_t pending = table->pending(table.self());
      if (pending > most_pending_) most_pending_ = pending;
    }
  }
  std::atomic<bool> ended_{false};
  std::atomic<uint64_t> pushed_{0}, most_pending_{0};
  std::thread thread_;
};

void endless_pushes_do_not_keep_waits_waiting() {
  const Table table(1);
  mx_variable* v = table.variable();
  {
    const EndlessPusher pusher(table);
    while (pusher.pushed() < 20000) std::this_thread::yield();
    const auto start = Clock::now();
    for (int i = 0; i < 5; ++i) {
      table.push({{}, {v}}, work_a_moment);
      CHECK(table.wait(v, false).empty());
    }
    for (int i = 0; i < 3; ++i) CHECK(table.wait_all().empty());
    CHECK(seconds_since(start) < 20);
    CHECK(pusher.most_pending() < 3 * 2048);
  }
  table.remove(v);
}

// Who ends the last operation may tell of it late, when another thread has pushed and waits for what it has pushed.
void a_wait_that_begins_later_is_not_ended() {
  mx::engine::Admission admission(nullptr, false);
  const auto in_ms = [](int ms) { return Clock::now() + std::chrono::milliseconds(ms); };
  std::atomic<bool> over{false};
  std::thread other([&] {  // to whom it is told
    while (!over) admission.wait_until_quiet(in_ms(10));
  });
  for (int round = 0; round < 20; ++round) {
    CHECK(admission.enter(false, nullptr) == MX_OK);
    sleep_ms(1);
    admission.lock_for_fork();  // so many are late, and tell of it one after another
    std::vector<std::thread> late;
    for (int i = 0; i < 16; ++i) {
      late.emplace_back([&] { admission.leave(); });
      while (admission.pending() != 0) sleep_ms(1);
      CHECK(admission.enter(false, nullptr) == MX_OK);
    }
    admission.unlock_after_fork(false, 0);
    CHECK(!admission.wait_until_quiet(in_ms(20)));
    admission.leave();
    for (auto& thread : late) thread.join();
  }
  over = true;
  other.join();
}

void who_is_behind_a_blocked_engine_still_pushes() {
  const Table table(2);
  std::atomic<bool> open{false};
  mx_variable* v = table.variable();
  table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
    while (!open) sleep_ms(1);
    return nullptr;
  });
  const auto start = Clock::now();
  std::atomic<int> ran{0};
  // What is pending waits for this thread: it must come to the last line.
  for (int i = 0; i < 20000; ++i) {
    table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
      ++ran;
      return nullptr;
    });
  }
  CHECK(seconds_since(start) < 30);
  open = true;
  CHECK(table.wait_all().empty() && ran == 20000);
  table.remove(v);
}

void operations_that_push_are_never_held() {
  const Table table(1);
  std::atomic<int> ran{0};
  const auto start = Clock::now();
  table.push({}, [&](const mx_run_context&) -> mx_failure* {
    for (int i = 0; i < 20000; ++i) {
      table.push({}, [&](const mx_run_context&) -> mx_failure* {
        ++ran;
        return nullptr;
      });
    }
    return nullptr;
  });
  CHECK(table.wait_all().empty() && ran == 20000);
  CHECK(seconds_since(start) < 10);
}

void a_fork_holds_other_threads_back() {
  const auto engine = [](const Table& table) { return static_cast<Engine*>(table.self()); };
  const Table table(2);
  std::atomic<bool> ended{false};
  std::vector<std::thread> pushers;
  for (int i = 0; i < 4; ++i) {
    pushers.emplace_back([&] {
      mx_variable* v = table.variable();
      while (!ended) {
        table.push({{}, {v}}, work_a_moment);
        CHECK(table.wait(v, false).empty());
      }
      table.remove(v);
    });
  }
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    CHECK(engine(table)->lifecycle().hold_for_fork());
    do {  // a push that is being turned away counts for a moment
      CHECK(engine(table)->waiting().drain(10'000'000'000) && seconds_since(start) < 5);
    } while (!engine(table)->lifecycle().try_close_for_fork(false));
    while (table->pending(table.self()) != 0) {
      CHECK(seconds_since(start) < 5);
      sleep_ms(1);
    }
    engine(table)->lifecycle().open_after_fork();
    sleep_ms(1);
  }
  ended = true;
  for (auto& thread : pushers) thread.join();
}

void running_operations_push_while_a_fork_holds() {
  const Table table(2);
  auto* engine = static_cast<Engine*>(table.self());
  std::atomic<bool> held{false};
  std::atomic<int> ran{0};
  table.push({}, [&](const mx_run_context&) -> mx_failure* {
    while (!held) sleep_ms(1);
    mx_variable* v = table.variable();
    table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
      ++ran;
      return nullptr;
    });
    CHECK(table.wait(v, false).empty());
    table.remove(v);
    return nullptr;
  });
  CHECK(engine->lifecycle().hold_for_fork() && !engine->lifecycle().hold_for_fork());
  CHECK(!engine->lifecycle().try_close_for_fork(false));
  held = true;
  CHECK(engine->waiting().drain(10'000'000'000) && ran == 1);
  CHECK(engine->lifecycle().try_close_for_fork(false));
  engine->lifecycle().open_after_fork();
  table.push({}, work_a_moment);
  CHECK(table.wait_all().empty());
}

void only_one_thread_forks() {
  const Table table(1);
  auto& lifecycle = static_cast<Engine*>(table.self())->lifecycle();
  CHECK(lifecycle.hold_for_fork() && !lifecycle.hold_for_fork());
  CHECK(lifecycle.try_close_for_fork(false) && !lifecycle.hold_for_fork());
  std::thread([&] { CHECK(!lifecycle.hold_for_fork() && !lifecycle.try_close_for_fork(true)); }).join();
  mx_error error{};
  CHECK(table.try_push({}, work_a_moment, nullptr, &error) == MX_ERROR);
  CHECK(std::string(error.message) == "nothing can be pushed by a thread that is about to fork");
  std::thread([&] { lifecycle.open_after_fork(); }).join();  // another thread's fork it does not end
  CHECK(table.try_push({}, work_a_moment, nullptr, &error) == MX_ERROR);
  lifecycle.open_after_fork();
  table.push({}, work_a_moment);
  CHECK(table.wait_all().empty() && lifecycle.hold_for_fork());
  lifecycle.open_after_fork();
}

void forks_after_the_end_need_not_wait() {
  const Table table(1);
  auto& lifecycle = static_cast<Engine*>(table.self())->lifecycle();
  const auto push = [&] {
    mx_error error{};
    const int32_t status = table.try_push({}, work_a_moment, nullptr, &error);
    CHECK(status == MX_OK || test::has(error.message, "the engine was shut down"));
    return status;
  };
  CHECK(lifecycle.close(1'000'000'000) && push() == MX_ERROR_SHUTDOWN);
  CHECK(lifecycle.hold_for_fork() && lifecycle.try_close_for_fork(false));
  lifecycle.open_after_fork();
  CHECK(push() == MX_ERROR_SHUTDOWN);  // closed as it was
  lifecycle.notify_shutdown();
  CHECK(!lifecycle.hold_for_fork() && lifecycle.try_close_for_fork(false));
  lifecycle.open_after_fork();
  CHECK(push() == MX_ERROR_SHUTDOWN && lifecycle.close(1'000'000'000));
}

void handlers_of_the_exit_push_and_others_do_not() {
  const Table table(2);
  auto* engine = static_cast<Engine*>(table.self());
  CHECK(engine->lifecycle().close(1'000'000'000) && engine->lifecycle().stop());
  engine->lifecycle().serve_exit();
  int ran = 0;
  table.push({}, [&](const mx_run_context&) -> mx_failure* {
    sleep_ms(20);
    ++ran;
    return nullptr;
  });
  CHECK(ran == 1);  // the push has waited for it
  std::thread([&] {
    mx_error error{};
    const auto never = [](const mx_run_context&) -> mx_failure* { std::abort(); };
    CHECK(table.try_push({}, never, nullptr, &error) == MX_ERROR_SHUTDOWN);
  }).join();
}

}  // namespace

int main() {
  return run({
      {"endless pushes", endless_pushes_do_not_keep_waits_waiting},
      {"a wait that begins later", a_wait_that_begins_later_is_not_ended},
      {"a blocked engine", who_is_behind_a_blocked_engine_still_pushes},
      {"operations that push", operations_that_push_are_never_held},
      {"a fork holds pushes back", a_fork_holds_other_threads_back},
      {"operations push while a fork holds", running_operations_push_while_a_fork_holds},
      {"one fork at a time", only_one_thread_forks},
      {"a fork after the end", forks_after_the_end_need_not_wait},
      {"handlers of the exit", handlers_of_the_exit_push_and_others_do_not},
  });
}
