// SPDX-License-Identifier: Apache-2.0
//
// Bulk scopes: what is held back, who hands it over, and that nothing else differs.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support.hpp"

using namespace test;

namespace {

class Scope {
 public:
  Scope(const Table& table, int32_t size)
      : table_(table), former_(table->set_bulk_size(table.self(), size)) {}
  ~Scope() { table_->set_bulk_size(table_.self(), former_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Table& table_;
  const int32_t former_;
};

// Whether `runs` reaches `n`; what must not happen is looked for long enough to be seen as a rule.
bool reaches(const std::atomic<int>& runs, int n, int ms = 20'000) {
  for (; runs < n && ms > 0; --ms) sleep_ms(1);
  return runs >= n;
}

void what_ends_a_bulk() {
  const Table table(2);
  mx_variable* v = table.variable();
  mx_operator* op = nullptr;
  mx_operation prototype{};
  prototype.size = sizeof prototype;
  prototype.priority = 1;
  prototype.run = [](void*, const mx_run_context*) -> mx_failure* { return nullptr; };
  mx_error error{};
  op = table->new_operator(table.self(), &prototype, &error);
  CHECK(op != nullptr);
  const auto nothing = [](const mx_run_context&) -> mx_failure* { return nullptr; };
  const std::function<void()> ends[] = {
      [&] { table.push({{}, {}, MX_FN_CPU_PRIORITIZED}, nothing); },
      [&] { table.push({{}, {}, MX_FN_NORMAL, 5}, nothing); },
      [&] { table.push({{}, {}, MX_FN_NORMAL, 0, MX_PUSH_PYTHON}, nothing); },
      [&] { table.push_async({}, [&](const mx_run_context&, mx_completion* done) { table.complete(done); }); },
      [&] { table.push({{}, {}, MX_FN_NORMAL, 0, 0, "other", {MX_CPU, 1}}, nothing); },
      [&] { CHECK(table->push_operator(table.self(), op, {MX_CPU, 0}, 1, nullptr, &error) == MX_OK); },
      [&] { table.wait(v); },
      [&] { CHECK(table->variable_ready(table.self(), v, 0) == 0); },
      [&] { CHECK(table->pending(table.self()) > 0); },
      [&] { table.quiet(); },
      [&] { table->set_bulk_size(table.self(), 10); },
      [&] { std::thread([&] { table.wait(v); }).join(); },
      [&] { std::thread([&] { table.quiet(); }).join(); },
  };
  for (const auto& end : ends) {
    std::atomic<int> runs{0};
    const auto body = [&](const mx_run_context&) -> mx_failure* {
      ++runs;
      return nullptr;
    };
    const Scope scope(table, 10);
    for (int i = 0; i < 3; ++i) table.push({{}, {v}}, body);
    sleep_ms(5);
    CHECK(runs == 0);
    end();
    CHECK(reaches(runs, 3));
    table.quiet();
  }
  table->delete_operator(table.self(), op);
  std::atomic<int> runs{0};
  {
    const Scope scope(table, 4);
    for (int i = 0; i < 6; ++i) {
      table.push({}, [&](const mx_run_context&) { ++runs; return nullptr; });
    }
    CHECK(reaches(runs, 4));
    sleep_ms(5);
    CHECK(runs == 4);
  }
  CHECK(reaches(runs, 6));
  std::thread([&] {  // the end of a thread ends its scope
    table->set_bulk_size(table.self(), 4);
    table.push({{}, {v}}, [&](const mx_run_context&) { ++runs; return nullptr; });
  }).join();
  CHECK(reaches(runs, 7));
  table.quiet();
  table.remove(v);
}

// Every operation fails by its own name, and poisons what it writes and what depends on it.
void failures_are_the_operations_own() {
  for (const int failing : {0, 1, 2, 3, 4, 5}) {
    const Table table(2);
    std::vector<mx_variable*> v;
    for (int i = 0; i < 6; ++i) v.push_back(table.variable());
    std::atomic<int> runs{0};
    {
      const Scope scope(table, 6);
      for (int i = 0; i < 6; ++i) {  // two chains: even and odd
        How how;
        if (i >= 2) how.reads = {v[i - 2]};
        how.writes = {v[i]};
        table.push(how, [&, i](const mx_run_context&) -> mx_failure* {
          ++runs;
          return i == failing ? fail("operation " + std::to_string(i)) : nullptr;
        });
      }
    }
    table.quiet();
    const std::string text = "operation " + std::to_string(failing);
    int skipped = 0;
    for (int i = 0; i < 6; ++i) {
      const bool hit = i >= failing && (i - failing) % 2 == 0;
      CHECK(table.failure_of(v[i]) == (hit ? text : ""));
      CHECK(table.version(v[i]) == 1);
      skipped += hit && i != failing;
    }
    CHECK(runs == 6 - skipped);
    CHECK(table.wait_all() == text);
    for (mx_variable* variable : v) table.remove(variable);
  }
}

void an_operation_may_wait_for_a_later_one() {
  const Table table(1);
  mx_variable* v = table.variable();
  std::atomic<bool> waited{false};
  {
    const Scope scope(table, 5);
    table.push({}, [&](const mx_run_context&) -> mx_failure* {
      CHECK(table.wait(v).empty() && table.version(v) == 1);
      waited = true;
      return nullptr;
    });
    table.push({{}, {v}}, [](const mx_run_context&) -> mx_failure* { return nullptr; });
  }
  table.quiet();
  CHECK(waited);
  table.remove(v);
}

void a_variable_goes_while_its_operation_is_held() {
  const Table table(2);
  std::atomic<int> order{0}, ran{0}, freed{0};
  {
    const Scope scope(table, 5);
    mx_variable* v = table.variable();
    table.push({{}, {v}}, [&](const mx_run_context&) { ran = ++order; return nullptr; });
    struct Both {
      std::atomic<int>*order, *freed;
    } both{&order, &freed};
    std::thread([&] {
      table->delete_variable(
          table.self(), v, {MX_CPU, 0},
          [](void* a) {
            auto* b = static_cast<Both*>(a);
            *b->freed = ++*b->order;
          },
          &both);
    }).join();
    CHECK(freed == 0);
    table.quiet();
  }
  CHECK(ran == 1 && freed == 2);
}

void threads_with_bulks_and_threads_that_wait() {
  const Table table(3);
  mx_variable* v = table.variable();
  std::atomic<int> runs{0};
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Scope scope(table, 2 + 3 * t);
      for (int i = 0; i < 2000; ++i) {
        const uint32_t flags = i % 7 == t ? MX_PUSH_PARALLEL : i % 5 == t ? MX_PUSH_INLINE : 0;
        table.push({{}, {v}, MX_FN_NORMAL, 0, flags},
                   [&](const mx_run_context&) { ++runs; return nullptr; });
        if (i % 500 == 499) table.wait(v);
      }
    });
  }
  std::thread waiter([&] {
    while (!end) {
      table.wait(v, true);
      table.quiet();
    }
  });
  for (auto& thread : threads) thread.join();
  end = true;
  waiter.join();
  CHECK(runs == 8000 && table.version(v) == 8000);
  table.remove(v);
}

void engines_end_with_a_bulk_open() {
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> runs{0};
    const Table other(1);
    {
      const Table table(2);
      table->set_bulk_size(table.self(), 10);
      for (int j = 0; j < 3; ++j) table.push({}, [&](const mx_run_context&) { ++runs; return nullptr; });
      if (i % 2 == 0) {  // the push to another engine ends the bulk
        other.push({}, [&](const mx_run_context&) { ++runs; return nullptr; });
      }
    }
    other->set_bulk_size(other.self(), 0);
    other.quiet();
    CHECK(runs == (i % 2 == 0 ? 4 : 3));
  }
}

void a_child_starts_without_what_was_held() {
  const Table table(2);
  const Scope scope(table, 10);
  std::atomic<int> runs{0};
  const auto body = [&](const mx_run_context&) -> mx_failure* {
    ++runs;
    return nullptr;
  };
  table.push({}, body);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    for (int i = 0; i < 3; ++i) table.push({}, body);
    table.quiet();
    _exit(runs == 3 ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  table.quiet();
  CHECK(runs == 1);
}

}  // namespace

int main() {
  return run({
      {"what ends a bulk", what_ends_a_bulk},
      {"failures", failures_are_the_operations_own},
      {"waits inside", an_operation_may_wait_for_a_later_one},
      {"deletion", a_variable_goes_while_its_operation_is_held},
      {"threads", threads_with_bulks_and_threads_that_wait},
      {"engines end", engines_end_with_a_bulk_open},
      {"fork", a_child_starts_without_what_was_held},
  });
}
