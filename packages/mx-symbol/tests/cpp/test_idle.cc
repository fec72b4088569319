// SPDX-License-Identifier: Apache-2.0
//
// Bindings of calls: one that is not pending any more serves the next call.
#include <atomic>
#include <thread>

#include "binding.hpp"
#include "fakes.hpp"
#include "mx_core/native_tests.hpp"
#include "nodes.hpp"

using namespace mx::symbol;

namespace {

// in -> [arena] -> out, in two parts.
struct Calls {
  Calls() {
    one.body = plus(1);
    ten.body = plus(10);
    for (int i = 0; i < 3; ++i) program->add_array(i == 2);
    const uint32_t in = program->add_slot(window(0), 4), between = program->add_slot(window(2, 64), 4);
    const uint32_t out = program->add_slot(window(1), 4);
    program->add_node(node("first", one, {in}, {between}));
    program->add_node(node("second", ten, {between}, {out}));
    program->seal({1, 2});
    memo = std::make_shared<Memo>(*program);
  }
  std::shared_ptr<Binding> of(std::vector<mx_array*> arrays, uint32_t part) {
    return Binding::of_call(program, arrays.data(), arrays.size(), memo, part);
  }
  Fakes fakes;
  mx_call one, ten;
  std::shared_ptr<Program> program = std::make_shared<Program>(fakes.tables(), kHost, "calls");
  std::shared_ptr<Memo> memo;
};

void a_binding_serves_the_next_call() {
  Calls calls;
  mx_array in(1), out(1), arena(32), other_in(1), other_out(1), other_arena(64);
  in.values[0] = 5;
  other_in.values[0] = 100;
  const void* first = nullptr;
  {
    const auto binding = calls.of({&in, &out, &arena}, 0);
    first = binding.get();
    binding->push(0, 0);
    CHECK(in.references == 2);
  }
  CHECK(in.references == 1 && out.references == 1 && arena.references == 1);
  calls.of({&in, &out, &arena}, 1)->push(1, 0);
  CHECK(out.values[0] == 16);
  const auto again = calls.of({&other_in, &other_out, &other_arena}, 0);
  CHECK(again.get() == first);
  again->push(0, 0);
  calls.of({&other_in, &other_out, &other_arena}, 1)->push(1, 0);
  CHECK(other_out.values[0] == 111 && out.values[0] == 16);
  CHECK(calls.fakes.pushed.back().writes == std::vector<mx_variable*>{&other_out.own});
  CHECK(calls.fakes.pushed.back().reads == std::vector<mx_variable*>{&other_arena.own});
}

void one_that_is_in_use_serves_nobody_else() {
  Calls calls;
  mx_array in(1), out(1), arena(32);
  const auto one = calls.of({&in, &out, &arena}, 0), two = calls.of({&in, &out, &arena}, 0);
  CHECK(one != two && in.references == 3);
}

void what_is_refused_keeps_nothing() {
  Calls calls;
  mx_array in(1), out(1), arena(32), small(16);
  calls.of({&in, &out, &arena}, 0)->push(0, 0);
  CHECK(test::has(test::error_of([&] { calls.of({&in, &out, &small}, 0); }), "array 2: expected 68 bytes, got 64"));
  CHECK(test::has(test::error_of([&] { calls.of({&in, &out}, 0); }), "expected 3 arrays, got 2"));
  CHECK(in.references == 1 && out.references == 1 && small.references == 1);
  calls.of({&in, &out, &arena}, 0)->push(0, 0);
}

void a_failure_is_of_its_call_alone() {
  Calls calls;
  calls.fakes.naive = false;
  mx_array in(1), out(1), arena(32);
  bool fails = true;
  calls.one.body = [&fails](const mx_tensor* from, const mx_tensor* to, const uint8_t* req, uint64_t offset) {
    if (fails) return mx::make_failure(MX_ERROR, "no");
    return plus(1)(from, to, req, offset);
  };
  calls.of({&in, &out, &arena}, 0)->push(0, 0);
  fails = false;
  calls.of({&in, &out, &arena}, 0)->push(0, 0);
  CHECK(arena.values[16] == 1);
}

// The memo keeps what is idle, and what is idle keeps no memo.
void nothing_keeps_itself() {
  Calls calls;
  mx_array in(1), out(1), arena(32);
  auto pending = calls.of({&in, &out, &arena}, 0);
  calls.of({&in, &out, &arena}, 1)->push(1, 0);
  const std::weak_ptr<Memo> memo = calls.memo;
  const std::weak_ptr<Program> program = calls.program;
  calls.memo.reset();
  calls.program.reset();
  pending->push(0, 0);
  pending.reset();
  CHECK(memo.expired() && program.expired());
  CHECK(calls.one.references == 1 && in.references == 1);
}

void a_naive_engine_has_new_ones() {
  Calls calls;
  calls.fakes.naive = true;
  mx_array in(1), out(1), arena(32);
  calls.of({&in, &out, &arena}, 0)->push(0, 0);
  CHECK(calls.memo->idle().take(0) == nullptr);
  calls.fakes.naive = false;
  calls.of({&in, &out, &arena}, 0)->push(0, 0);
  CHECK(calls.memo->idle().take(0) != nullptr);
}

void as_many_are_kept_as_are_worth_it() {
  Calls calls;
  mx_array in(1), out(1), arena(32);
  {
    std::vector<std::shared_ptr<Binding>> many;
    for (int i = 0; i < 100; ++i) many.push_back(calls.of({&in, &out, &arena}, 0));
  }
  std::vector<std::unique_ptr<Binding>> kept;
  while (auto binding = calls.memo->idle().take(0)) kept.push_back(std::move(binding));
  CHECK(kept.size() > 1 && kept.size() < 100);
  CHECK(calls.memo->idle().take(1) == nullptr);
}

void threads_share_them() {
  Calls calls;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      mx_array in(1), out(1), arena(32);
      for (int i = 0; i < 500; ++i) {
        in.values[0] = static_cast<float>(t * 1000 + i);
        calls.of({&in, &out, &arena}, 0)->push(0, 0);
        calls.of({&in, &out, &arena}, 1)->push(1, 0);
        if (out.values[0] != in.values[0] + 11) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace

int main() {
  a_binding_serves_the_next_call();
  one_that_is_in_use_serves_nobody_else();
  what_is_refused_keeps_nothing();
  a_failure_is_of_its_call_alone();
  nothing_keeps_itself();
  a_naive_engine_has_new_ones();
  as_many_are_kept_as_are_worth_it();
  threads_share_them();
  std::puts("ok");
  return 0;
}
