// SPDX-License-Identifier: Apache-2.0
//
// The debugging engine: undeclared writes and circular waits are refused with a reason.
#include <atomic>
#include <cstring>

#include "program.hpp"
#include "support.hpp"

using namespace test;

namespace {

EngineOptions debugging(int workers) {
  EngineOptions options;
  options.debug = true;
  options.limits.compute = options.limits.python = workers;
  return options;
}

int32_t wait(const Table& table, mx_variable* v, bool for_write, mx_error* error) {
  return table->wait_for_variable(table.self(), v, for_write, 10'000'000'000, nullptr, error);
}

void undeclared_writes() {
  const Table table(debugging(2));
  mx_variable *declared = table.variable(), *read = table.variable(), *other = table.variable();
  const auto nothing = [](const mx_run_context&) -> mx_failure* { return nullptr; };
  How how{{read}, {declared}};
  how.flags = MX_PUSH_PYTHON;
  how.name = "outer";
  table.push(how, [&](const mx_run_context&) -> mx_failure* {
    mx_error error{};
    mx_variable* own = table.variable();
    table.push({{read, other}, {declared}}, nothing);
    table.push({{}, {own}}, nothing);
    for (mx_variable* v : {read, other}) {
      CHECK(table.try_push({{}, {v}}, nothing, nullptr, &error) == MX_ERROR);
      CHECK(std::strstr(error.message, "'outer' (pushed at test.cc:1) did not declare") != nullptr);
    }
    table.remove(own);
    return nullptr;
  });
  table.quiet();
  how.flags = 0;  // a native operation knows what it does
  table.push(how, [&](const mx_run_context&) -> mx_failure* {
    table.push({{}, {other}}, nothing);
    return nullptr;
  });
  CHECK(table.wait_all().empty() && table.version(other) == 1);
  for (mx_variable* v : {declared, read, other}) table.remove(v);
}

// "first" waits for what "second" writes, and "second" waits for what comes after "first".
void circular_waits() {
  const Table table(debugging(3));
  mx_variable *a = table.variable(), *b = table.variable(), *c = table.variable();
  std::atomic<int> running{0}, refused{0};
  mx_error errors[2] = {};
  const auto body = [&](mx_variable* awaited, mx_error* error) {
    return [&, awaited, error](const mx_run_context&) -> mx_failure* {
      ++running;
      while (running < 3) sleep_ms(1);
      if (wait(table, awaited, false, error) == MX_ERROR) ++refused;
      return nullptr;
    };
  };
  How first{{}, {a}}, between{{a}, {c}}, second{{}, {b}};
  first.name = "first";
  between.name = "between";
  second.name = "second";
  table.push(first, body(b, &errors[0]));
  table.push(second, body(c, &errors[1]));
  table.push(between, [](const mx_run_context&) -> mx_failure* { return nullptr; });
  ++running;
  table.quiet();
  CHECK(refused == 1);
  const char* text = errors[0].code != 0 ? errors[0].message : errors[1].message;
  const auto pushed = [](const char* name) { return std::string("'") + name + "' (pushed at test.cc:1)"; };
  std::string expected = "[wait_for_variable] the program would wait for itself: ";
  if (errors[0].code != 0) {  // whichever waited last is told
    expected += pushed("first") + " waits for " + pushed("second") + ", which waits for " + pushed("between") +
                ", which comes after " + pushed("first");
  } else {
    expected += pushed("second") + " waits for " + pushed("between") + ", which comes after " + pushed("first") +
                ", which waits for " + pushed("second");
  }
  if (text != expected) std::fprintf(stderr, "%s\n", text);
  CHECK(text == expected);
  for (mx_variable* v : {a, b, c}) table.remove(v);
}

// Nothing is refused in programs without faults.
void harmless_waits() {
  const Table table(debugging(2));
  Generator random(3, 6);
  std::vector<mx_variable*> v;
  for (int i = 0; i < 6; ++i) v.push_back(table.variable());
  for (int i = 0; i < 2000; ++i) {
    const Step step = random.step(0);
    How how;
    for (const int r : step.reads) how.reads.push_back(v[r]);
    for (const int w : step.writes) how.writes.push_back(v[w]);
    mx_variable* own = table.variable();
    table.push({{}, {own}}, [](const mx_run_context&) -> mx_failure* {
      std::this_thread::yield();
      return nullptr;
    });
    table.push(how, [&table, own](const mx_run_context&) -> mx_failure* {
      mx_error error{};
      CHECK(wait(table, own, true, &error) == MX_OK);
      table.remove(own);
      return nullptr;
    });
  }
  CHECK(table.wait_all().empty());
  for (mx_variable* each : v) table.remove(each);
}

}  // namespace

int main() {
  return run({
      {"undeclared writes", undeclared_writes},
      {"circular waits", circular_waits},
      {"harmless waits", harmless_waits},
  });
}
