// SPDX-License-Identifier: Apache-2.0
//
// What a child of a fork may do that came while something was pending. It has none of the parent's threads.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "support.hpp"

using namespace test;

namespace {

const Body kNothing = [](const mx_run_context&) -> mx_failure* { return nullptr; };

bool ended_well(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Forks and checks something in the child, which then ends at once.
template <class Check>
void in_a_child(const Table& table, Check check) {
  auto& lifecycle = static_cast<Engine*>(table.self())->lifecycle();
  CHECK(lifecycle.hold_for_fork() && lifecycle.try_close_for_fork(true));
  const pid_t child = ::fork();
  CHECK(child >= 0);
  lifecycle.open_after_fork();
  if (child == 0) {
    check();
    ::_exit(0);
  }
  CHECK(ended_well(child));
}

// An operation that runs until `end`, or until this goes.
class Pending {
 public:
  Pending(const Table& table, const How& how) : table_(table) {
    table.push(how, [this](const mx_run_context&) -> mx_failure* {
      while (!ended_) sleep_ms(1);
      return nullptr;
    });
  }
  void end() const { ended_ = true; }
  ~Pending() {
    end();
    CHECK(table_.wait_all().empty());
  }

 private:
  const Table& table_;
  mutable std::atomic<bool> ended_{false};
};

std::string refusal(const Table& table, const How& how) {
  mx_error error{};
  CHECK(table.try_push(how, kNothing, nullptr, &error) != MX_OK);
  return error.message;
}

void what_was_pending_is_lost() {
  const Table table(2);
  mx_variable *read = table.variable(), *written = table.variable(), *idle = table.variable();
  {
    const Pending pending(table, {{read}, {written}});
    in_a_child(table, [&] {
      CHECK(table->pending(table.self()) == 0);
      const char* text = "[test] a variable of it was used by operations that were pending in the parent";
      CHECK(has(refusal(table, {{written}, {}}), text) && has(refusal(table, {{}, {written}}), text));
      CHECK(has(refusal(table, {{}, {idle, read}}), text) && has(refusal(table, {{idle, written}, {}}), text));
      // what is wrong besides is still told
      How elsewhere{{}, {idle}};
      elsewhere.context = {MX_FIRST_PLUGIN_DEVICE, 0};
      CHECK(has(refusal(table, elsewhere), "device") && !has(refusal(table, elsewhere), "pending in the parent"));
      CHECK(has(refusal(table, {{idle}, {idle}}), "both read and mutated"));
      // read and idle variables, and new ones, go on
      How here{{read, idle}, {table.variable()}};
      here.flags = MX_PUSH_INLINE;
      table.push(here, kNothing);
      CHECK(table.version(here.writes[0]) == 1);
    });
  }
  for (mx_variable* v : {read, written, idle}) {  // nothing has changed here
    table.push({{}, {v}}, kNothing);
    CHECK(table.wait(v).empty());
    table.remove(v);
  }
}

void nothing_is_lost_where_nothing_was_pending() {
  const Table table(2);
  mx_variable* v = table.variable();
  table.push({{}, {v}}, kNothing);
  CHECK(table.wait_all().empty());
  in_a_child(table, [&] {
    How how{{}, {v}};
    how.flags = MX_PUSH_INLINE;
    table.push(how, kNothing);
    CHECK(table.version(v) == 2);
  });
  CHECK(table.version(v) == 1);
  table.remove(v);
}

// What was joined is lost together, and goes on together.
void parts_are_lost_as_one() {
  const Table table(2);
  mx_variable *a = table.variable(), *b = table.variable(), *joint = nullptr;
  mx_variable* both[] = {a, b};
  CHECK(table->join_variables(table.self(), both, 2, &joint, nullptr) == MX_OK);
  {
    const Pending pending(table, {{}, {a}});
    in_a_child(table, [&] {
      CHECK(has(refusal(table, {{b}, {}}), "pending in the parent"));
      table.remove(b);
    });
  }
  in_a_child(table, [&] {
    How how{{a}, {b}};
    how.flags = MX_PUSH_INLINE;
    table.push(how, kNothing);
    CHECK(table.version(a) == table.version(b));
    mx_variable* more[] = {b, table.variable()};
    mx_variable* largest = nullptr;
    CHECK(table->join_variables(table.self(), more, 2, &largest, nullptr) == MX_OK && largest == joint);
  });
  for (mx_variable* v : both) table.remove(v);
}

// Of two asynchronous operations the one that forks goes on in the child, the other does not.
void completions_go_on_where_their_operations_do() {
  const Table table(2);
  mx_variable *other = table.variable(), *own = table.variable();
  std::atomic<mx_completion*> kept{nullptr};
  table.push_async({{}, {other}}, [&](const mx_run_context&, mx_completion* done) { kept = done; });
  while (kept == nullptr) sleep_ms(1);
  table.push_async({{}, {own}}, [&](const mx_run_context&, mx_completion* done) {
    in_a_child(table, [&] {
      CHECK(table->pending(table.self()) == 1);
      table.complete(kept, mx::make_failure(MX_ERROR, "told in the child"));
      CHECK(table->pending(table.self()) == 1);
      table.complete(done);  // the operation ends when its body returns
    });
    table.complete(done);
  });
  CHECK(table.wait(own).empty());
  table.complete(kept);
  CHECK(table.wait(other).empty() && table.wait_all().empty());
  table.remove(other);
  table.remove(own);
}

// The operation that forks is of another engine than the one that is pending.
void what_another_engine_has_pending_is_lost() {
  const Table table(2), other(2);
  mx_variable *v = table.variable(), *w = other.variable();
  {
    const Pending pending(other, {{}, {w}});
    table.push({{}, {v}}, [&](const mx_run_context&) -> mx_failure* {
      in_a_child(table, [&] {
        ::alarm(20);
        CHECK(table->pending(table.self()) == 1 && other->pending(other.self()) == 0);
        CHECK(has(refusal(other, {{w}, {}}), "pending in the parent"));
      });
      return nullptr;
    });
    CHECK(table.wait(v).empty());
  }
  table.remove(v);
  other.remove(w);
}

// The child has none of the threads that may just be looking at a variable.
void threads_that_look_leave_no_lock_behind() {
  const Table table(2);
  mx_variable* v = table.variable();
  table.push({{}, {v}}, kNothing);
  CHECK(table.wait(v).empty());
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!ended) {
        CHECK(table.version(v) == 1 && table->variable_ready(table.self(), v, 1) != 0);
        CHECK(table.wait(v).empty());
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    in_a_child(table, [&] {
      ::alarm(20);  // ends a child that waits for ever
      CHECK(table.version(v) == 1 && table.wait(v, true).empty());
      How how{{}, {v}};
      how.flags = MX_PUSH_INLINE;
      table.push(how, kNothing);
      CHECK(table.version(v) == 2);
      // so are the children of this one
      in_a_child(table, [&] { CHECK(table.version(v) == 2); });
    });
  }
  ended = true;
  for (auto& thread : threads) thread.join();
  table.remove(v);
}

// A fork that could wait no longer for another thread's: the child has not got that thread, nor its hold.
void a_hold_of_another_thread_is_none_in_the_child() {
  for (const bool closes : {false, true}) {
    const Table table(2);
    auto& lifecycle = static_cast<Engine*>(table.self())->lifecycle();
    std::thread([&] { CHECK(lifecycle.hold_for_fork() && (!closes || lifecycle.try_close_for_fork(true))); }).join();
    CHECK(!lifecycle.try_close_for_fork(true));
    const pid_t child = ::fork();
    CHECK(child >= 0);
    lifecycle.open_after_fork();
    if (child == 0) {
      ::alarm(20);
      table.push({}, kNothing);
      CHECK(table.wait_all().empty() && lifecycle.hold_for_fork());
      ::_exit(0);
    }
    CHECK(ended_well(child) && !lifecycle.hold_for_fork());  // here it lasts
  }
}

#ifndef __SANITIZE_THREAD__  // which starts no thread in the child of a process that has threads
// The child of a fork that came while other threads waited for everything.
void waits_for_everything_go_on() {
  const Table table(2);
  mx_variable* v = table.variable();
  {
    const Pending pending(table, {{}, {v}});
    std::vector<std::thread> waiters;
    for (int t = 0; t < 3; ++t) waiters.emplace_back([&] { table.quiet(); });
    sleep_ms(20);
    in_a_child(table, [&] {
      ::alarm(20);
      for (int i = 0; i < 5; ++i) {
        table.push({}, [](const mx_run_context&) -> mx_failure* {
          sleep_ms(2);
          return nullptr;
        });
        CHECK(table.wait_all().empty());
      }
    });
    pending.end();
    for (auto& thread : waiters) thread.join();
  }
  table.remove(v);
}
#endif

// A wait asks whether to go on, and what it calls forks, as a handler of a signal may.
void a_wait_that_forks_ends_in_the_child() {
  const Table table(2);
  mx_variable* v = table.variable();
  auto* const engine = static_cast<Engine*>(table.self());
  struct Asked {
    const Table& table;
    pid_t child = -1;
    static int32_t fork(void* self) {
      auto& asked = *static_cast<Asked*>(self);
      if (asked.child >= 0) return 1;
      auto& lifecycle = static_cast<Engine*>(asked.table.self())->lifecycle();
      CHECK(lifecycle.hold_for_fork() && lifecycle.try_close_for_fork(true));
      asked.child = ::fork();
      CHECK(asked.child >= 0);
      lifecycle.open_after_fork();
      if (asked.child == 0) ::alarm(20);
      return 1;
    }
  };
  const char* const text = "the operations that use the variable were pending in the parent";
  for (int way = 0; way < 4; ++way) {
    auto pending = std::make_unique<Pending>(table, How{{}, {v}});
    Asked asked{table};
    mx_error error{};
    mx_failure* failure = nullptr;
    int32_t status = MX_OK;
    std::thread later([&] {  // the parent's wait ends as ever
      sleep_ms(60);
      pending->end();
    });
    if (way < 2) {
      status = table->wait_for_variable_while(table.self(), v, way == 0, 1'000'000, &Asked::fork, &asked, &failure,
                                              &error);
    } else if (way == 2) {
      status = table->read_variable_while(table.self(), v, [](void*) {}, nullptr, 1'000'000, &Asked::fork, &asked,
                                          &failure, &error);
    } else {
      mx::engine::VariableWait wait;
      CHECK(engine->waiting().begin_wait(wait, v, true, &error) == MX_OK);
      Asked::fork(&asked);
      if (asked.child != 0) CHECK(engine->waiting().wait_until(wait, mx::engine::deadline(-1)));
      status = engine->waiting().end_wait(wait, &failure, &error);
    }
    if (asked.child == 0) {
      CHECK(status == MX_ERROR && has(error.message, text));
      // so does the next one
      status = table->wait_for_variable(table.self(), v, 1, -1, &failure, &error);
      CHECK(status == MX_ERROR && has(error.message, text));
      How here;
      here.flags = MX_PUSH_INLINE;
      table.push(here, kNothing);
      CHECK(table.wait_all().empty());
      ::_exit(0);
    }
    CHECK(status == MX_OK && failure == nullptr && ended_well(asked.child));
    later.join();
  }
  CHECK(table.wait_all().empty());
  table.remove(v);
}

// Nothing was pending any more, but a thread had not been told yet that its turn had come.
void a_wait_that_has_not_been_told_holds_nothing() {
  for (const bool for_write : {false, true}) {
    const Table table(2);
    mx_variable* v = table.variable();
    auto& waiting = static_cast<Engine*>(table.self())->waiting();
    mx::engine::VariableWait wait;
    mx::engine::ReadyList ready;
    mx_error error{};
    v->writing = true;  // as an operation has it
    CHECK(waiting.begin_wait(wait, v, for_write, &error) == MX_OK && !wait.granted);
    v->give_back(true);
    v->advance(ready);
    in_a_child(table, [&] {
      ::alarm(20);
      How how{{}, {v}};
      how.flags = MX_PUSH_INLINE;
      table.push(how, kNothing);
      CHECK(table.version(v) == 1);
    });
    CHECK(ready.pop() == &wait.block);
    wait.waiter.signal();
    mx_failure* failure = nullptr;
    CHECK(waiting.end_wait(wait, &failure, &error) == MX_OK && failure == nullptr);
    table.remove(v);
  }
}

}  // namespace

int main() {
  return run({
      {"what was pending", what_was_pending_is_lost},
      {"nothing was pending", nothing_is_lost_where_nothing_was_pending},
      {"joined variables", parts_are_lost_as_one},
      {"two engines", what_another_engine_has_pending_is_lost},
      {"a wait not told", a_wait_that_has_not_been_told_holds_nothing},
      {"threads that look", threads_that_look_leave_no_lock_behind},
      {"a hold of another thread", a_hold_of_another_thread_is_none_in_the_child},
#ifndef __SANITIZE_THREAD__
      {"waits for everything", waits_for_everything_go_on},
#endif
      {"waits that fork", a_wait_that_forks_ends_in_the_child},
      {"completions", completions_go_on_where_their_operations_do},
  });
}
