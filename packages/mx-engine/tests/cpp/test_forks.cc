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
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// An operation that runs until this goes.
class Pending {
 public:
  Pending(const Table& table, const How& how) : table_(table) {
    table.push(how, [this](const mx_run_context&) -> mx_failure* {
      while (!ended_) sleep_ms(1);
      return nullptr;
    });
  }
  ~Pending() {
    ended_ = true;
    CHECK(table_.wait_all().empty());
  }

 private:
  const Table& table_;
  std::atomic<bool> ended_{false};
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

}  // namespace

int main() {
  return run({
      {"what was pending", what_was_pending_is_lost},
      {"nothing was pending", nothing_is_lost_where_nothing_was_pending},
      {"completions", completions_go_on_where_their_operations_do},
  });
}
