// SPDX-License-Identifier: Apache-2.0
//
// What becomes of operations that fail.
#include <atomic>

#include "support.hpp"

using namespace test;

namespace {

mx_failure* succeed(const mx_run_context&) { return nullptr; }
Body failing(const char* text) {
  return [text](const mx_run_context&) { return fail(text); };
}

void every_position(int workers) {
  constexpr int kLength = 12;
  const Table table(workers);
  for (int position = 0; position < kLength; ++position) {
    std::vector<mx_variable*> chain;
    for (int i = 0; i <= kLength; ++i) chain.push_back(table.variable());
    std::atomic<int> ran{0};
    for (int i = 0; i < kLength; ++i) {
      table.push({{chain[i]}, {chain[i + 1]}}, [&ran, i, position](const mx_run_context&) {
        ++ran;
        return i == position ? fail("first cause") : nullptr;
      });
    }
    table.quiet();
    CHECK(ran == position + 1);
    CHECK(table.failure_of(chain[position]).empty());
    CHECK(table.failure_of(chain[kLength]) == "first cause");
    CHECK(table.wait(chain[position]).empty());
    CHECK(table.wait(chain[kLength]) == "first cause");  // delivered, for all that share it
    for (mx_variable* v : chain) CHECK(table.wait(v).empty());
    CHECK(table.failure_of(chain[kLength]) == "first cause");  // still known
    CHECK(table.wait_all().empty());
    for (mx_variable* v : chain) table.remove(v);
  }
}

void mutation_is_skipped_too() {
  const Table table(2);
  mx_variable* v = table.variable();
  std::atomic<bool> ran{false};
  table.push({{}, {v}}, failing("lost"));
  table.push({{}, {v}}, [&ran](const mx_run_context&) -> mx_failure* {
    ran = true;
    return nullptr;
  });
  CHECK(table.wait(v) == "lost");
  CHECK(!ran);
  CHECK(table.version(v) == 2);
  // Delivered: the next write runs, and makes the variable whole again.
  table.push({{}, {v}}, succeed);
  CHECK(table.wait(v).empty());
  CHECK(table.failure_of(v).empty());
  table.remove(v);
}

void no_skip_runs() {
  const Table table(2);
  mx_variable* v = table.variable();
  std::atomic<int> ran{0};
  table.push({{}, {v}}, failing("lost"));
  const Body count = [&ran](const mx_run_context&) -> mx_failure* {
    ++ran;
    return nullptr;
  };
  table.push({{v}, {}, MX_FN_NO_SKIP}, count);
  table.push({{}, {v}, MX_FN_NO_SKIP}, count);
  table.push({{}, {v}}, count);
  // The success of the second did not hide a failure nobody had seen.
  CHECK(table.wait(v) == "lost");
  CHECK(ran == 2);
  table.remove(v);
}

void wait_for_all_delivers_the_first_and_clears_all() {
  const Table table(1);
  mx_variable* a = table.variable();
  mx_variable* b = table.variable();
  table.push({{}, {a}}, failing("one"));
  table.push({{}, {b}}, failing("two"));
  CHECK(table.wait_all() == "one");
  CHECK(table.wait_all().empty());
  CHECK(table.wait(a).empty() && table.wait(b).empty());
  CHECK(table.failure_of(b) == "two");
  std::atomic<bool> ran{false};
  table.push({{a, b}, {}}, [&ran](const mx_run_context&) -> mx_failure* {
    ran = true;
    return nullptr;
  });
  CHECK(table.wait_all().empty());
  CHECK(ran);
  // An operation without variables poisons nothing, yet its failure is not lost.
  table.push({}, failing("three"));
  CHECK(table.wait_all() == "three");
  table.remove(a);
  table.remove(b);
}

void the_failure_names_operation_and_line() {
  const Table table(2);
  mx_variable* v = table.variable();
  mx_variable* w = table.variable();
  How how{{}, {v}};
  how.name = "convolve";
  table.push(how, failing("too small"));
  how = {{v}, {w}};
  how.name = "later";
  table.push(how, succeed);
  mx_failure* failure = nullptr;
  mx_error error{};
  CHECK(table->wait_for_variable(table.self(), w, 0, -1, &failure, &error) == MX_OK);
  const FailureRef owned(failure);
  CHECK(std::string(failure->operator_name) == "convolve");
  CHECK(std::string(failure->origin) == "test.cc:1");
  table.remove(v);
  table.remove(w);
}

void cxx_exceptions_become_failures() {
  const Table table(2);
  mx_variable* v = table.variable();
  for (const uint32_t flags : {0u, static_cast<uint32_t>(MX_PUSH_INLINE)}) {
    table.push({{}, {v}, MX_FN_NORMAL, 0, flags},
               [](const mx_run_context&) -> mx_failure* { throw std::runtime_error("thrown"); });
    CHECK(table.wait(v) == "thrown");
  }
  table.remove(v);
}

void asynchronous_failures() {
  std::thread other;
  {
    const Table table(2);
    mx_variable* v = table.variable();
    table.push_async({{}, {v}}, [&](const mx_run_context&, mx_completion* done) {
      other = std::thread([&table, done] { table.complete(done, fail("device lost")); });
      sleep_ms(2);  // completed before the body returns, as a rule
    });
    CHECK(table.wait(v) == "device lost");
    table.push_async({{}, {v}}, [&](const mx_run_context&, mx_completion* done) { table.complete(done, fail("early")); });
    CHECK(table.wait(v) == "early");
    table.remove(v);
  }
  other.join();
}

void an_inline_failure_is_stored() {
  const Table table(2);
  mx_variable* v = table.variable();
  mx_failure* failure = nullptr;
  mx_error error{};
  CHECK(table.try_push({{}, {v}, MX_FN_NORMAL, 0, MX_PUSH_INLINE}, failing("inline"), &failure,
                       &error) == MX_OK);
  CHECK(failure == nullptr);
  CHECK(table.failure_of(v) == "inline");
  CHECK(table.wait(v) == "inline");
  table.remove(v);
}

void a_naive_engine_returns_the_failure() {
  const Table table(1, true);
  CHECK(table->is_naive(table.self()) == 1);
  mx_variable* v = table.variable();
  mx_failure* failure = nullptr;
  mx_error error{};
  CHECK(table.try_push({{}, {v}}, failing("at once"), &failure, &error) == MX_OK);
  CHECK(failure != nullptr && std::string(failure->message) == "at once");
  failure->release(failure);
  CHECK(table.wait(v).empty());  // it was delivered
  CHECK(table.failure_of(v) == "at once");
  // Nobody takes it: it waits for the wait.
  table.push({{}, {v}}, failing("kept"));
  CHECK(table.wait(v) == "kept");
  table.remove(v);
}

void deleting_a_poisoned_variable() {
  const Table table(2);
  mx_variable* v = table.variable();
  std::atomic<int> freed{0};
  table.push({{}, {v}}, failing("gone"));
  table->delete_variable(
      table.self(), v, {MX_CPU, 0},
      [](void* n) { static_cast<std::atomic<int>*>(n)->fetch_add(1); }, &freed);
  CHECK(table.wait_all() == "gone");
  CHECK(freed == 1);
}

void many_unseen_failures_are_counted() {
  const Table table(2);
  for (int i = 0; i < 5000; ++i) table.push({}, failing("again"));
  table.quiet();
  auto* engine = static_cast<Engine*>(table.self());
  std::vector<FailureRef> first;
  CHECK(engine->failures().unobserved(&first) == 5000);
  CHECK(first.size() < 5000 && !first.empty());
  CHECK(table.wait_all() == "again");
  CHECK(engine->failures().unobserved(nullptr) == 0);
}

void failures_that_are_only_counted_may_be_seen_too() {
  const Table table(2);
  std::vector<mx_variable*> variables;
  for (int i = 0; i < 1300; ++i) {
    variables.push_back(table.variable());
    table.push({{}, {variables.back()}}, failing("seen"));
  }
  table.quiet();
  auto* engine = static_cast<Engine*>(table.self());
  CHECK(engine->failures().unobserved(nullptr) == 1300);
  for (mx_variable* v : variables) CHECK(table.wait(v) == "seen");
  CHECK(engine->failures().unobserved(nullptr) == 0);
  CHECK(table.wait_all().empty());
  for (mx_variable* v : variables) table.remove(v);
}

}  // namespace

int main() {
  return run({
      {"every position",
       [] {
         for (const int n : kWorkerCounts) every_position(n);
       }},
      {"a mutation of a poisoned variable is skipped", mutation_is_skipped_too},
      {"no-skip runs", no_skip_runs},
      {"wait for all", wait_for_all_delivers_the_first_and_clears_all},
      {"operation and line", the_failure_names_operation_and_line},
      {"C++ exceptions", cxx_exceptions_become_failures},
      {"asynchronous failures", asynchronous_failures},
      {"inline failures", an_inline_failure_is_stored},
      {"naive failures", a_naive_engine_returns_the_failure},
      {"deleting a poisoned variable", deleting_a_poisoned_variable},
      {"many unseen failures", many_unseen_failures_are_counted},
      {"many seen failures", failures_that_are_only_counted_may_be_seen_too},
  });
}
