// SPDX-License-Identifier: Apache-2.0
//
// Building programs and running them on arrays.
#include <thread>

#include "binding.hpp"
#include "mx_core/native_tests.hpp"
#include "fakes.hpp"
#include "nodes.hpp"

using mx::symbol::Binding;
using mx::symbol::kNoArray;
using mx::symbol::Memo;
using mx::symbol::Node;
using mx::symbol::Program;
using mx::symbol::Slot;

namespace {

// in -> [arena 0] -> [arena 1] -> out, of which the middle node may be Python.
struct Chain {
  explicit Chain(Fakes& fakes, bool python = false)
      : program(std::make_shared<Program>(fakes.tables(), kHost, "chain")) {
    one.body = plus(1);
    ten.body = plus(10);
    ten.python = python;
    for (int i = 0; i < 3; ++i) program->add_array();
    const uint32_t in = program->add_slot(window(0), 4);
    const uint32_t a = program->add_slot(window(2, 0), 4);
    const uint32_t b = program->add_slot(window(2, 64), 4);
    const uint32_t out = program->add_slot(window(1), 4);
    program->add_node(node("first", one, {in}, {a}));
    program->add_node(node("second", ten, {a}, {b}));
    program->add_node(node("third", one, {b}, {out}));
    program->seal({2, 3});
  }
  mx_call one, ten;
  std::shared_ptr<Program> program;
};

void parts_run_in_order() {
  Fakes fakes;
  Chain chain(fakes);
  mx_array in(1), out(1), arena(32);
  in.values[0] = 5;
  auto binding = std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &arena});
  binding->push(0, 0);
  CHECK(arena.values[16] == 16 && out.values[0] == 0);
  binding->push(1, 0);
  CHECK(out.values[0] == 17);
  CHECK(fakes.pushed.size() == 2);
  CHECK(fakes.pushed[0].reads == std::vector<mx_variable*>{&in.own});
  CHECK(fakes.pushed[0].writes == std::vector<mx_variable*>{&arena.own});
  CHECK(fakes.pushed[1].reads == std::vector<mx_variable*>{&arena.own});
  CHECK(test::has(test::error_of([&] { binding->push(2, 0); }), "no part 2"));
}

void a_binding_may_be_for_one_part() {
  Fakes fakes;
  Chain chain(fakes);
  mx_array in(1), out(1), arena(32);
  const std::vector<mx_array*> arrays{&in, &out, &arena};
  in.values[0] = 5;
  auto first = std::make_shared<Binding>(chain.program, arrays, nullptr, 0);
  auto second = std::make_shared<Binding>(chain.program, arrays, nullptr, 1);
  first->push(0, 0);
  second->push(1, 0);
  CHECK(out.values[0] == 17);
  CHECK(test::has(test::error_of([&] { first->push(1, 0); }), "the binding is for part 0, got 1"));
  CHECK(test::has(test::error_of([&] { std::make_shared<Binding>(chain.program, arrays, nullptr, 2); }), "no part 2"));
  fakes.naive = true;
  auto whole = std::make_shared<Binding>(chain.program, arrays, nullptr, 1);
  out.values[0] = 0;
  whole->push(1, 0);
  CHECK(out.values[0] == 17);
  CHECK(in.references == 4 && out.references == 4);
}

void python_nodes_are_segments_of_their_own() {
  Fakes fakes;
  Chain chain(fakes, true);
  mx_array in(1), out(1), arena(32);
  auto binding = std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &arena});
  binding->push(0, 0);
  binding->push(1, 0);
  CHECK(out.values[0] == 12);
  CHECK(fakes.pushed.size() == 3);
  CHECK(fakes.pushed[1].flags == MX_PUSH_PYTHON);
  CHECK(fakes.pushed[0].flags == (MX_PUSH_INLINE | MX_PUSH_PARALLEL));
}

void memory_may_move_between_runs() {
  Fakes fakes;
  Chain chain(fakes, true);  // several segments over one arena
  mx_array in(1), out(1), arena(32);
  auto binding = std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &arena});
  for (int i = 0; i < 3; ++i) {
    arena.values = std::vector<float>(32 + i * 100);
    in.values[0] = static_cast<float>(i);
    binding->push(0, 0);
    binding->push(1, 0);
    CHECK(out.values[0] == static_cast<float>(i + 12));
  }
}

void arrays_that_share_a_variable_are_listed_once() {
  Fakes fakes;
  Chain chain(fakes);
  mx_array in(1), out(1), arena(32);
  in.variable = arena.variable;
  auto binding = std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &arena});
  binding->push(0, 0);
  CHECK(fakes.pushed[0].reads.empty());
  CHECK(fakes.pushed[0].writes.size() == 1);
}

void references_are_given_back() {
  Fakes fakes;
  mx_array in(1), out(1), arena(32);
  Chain chain(fakes);
  CHECK(chain.one.references == 3 && chain.ten.references == 2);
  {
    auto binding =
        std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &arena});
    binding->push(0, 0);
    CHECK(in.references == 2);
  }
  CHECK(in.references == 1 && out.references == 1 && arena.references == 1);
  chain.program.reset();
  CHECK(chain.one.references == 1 && chain.ten.references == 1);
}

void wrong_programs_are_refused() {
  Fakes fakes;
  mx_call call;
  call.body = plus(1);
  Program program(fakes.tables(), kHost, "wrong");
  const uint32_t array = program.add_array();
  const uint32_t placed = program.add_slot(window(array), 4);
  const uint32_t nowhere = program.add_slot(window(kNoArray), 4);
  CHECK(test::has(test::error_of([&] { program.add_slot(window(7), 4); }), "no array 7"));
  CHECK(test::has(test::error_of([&] { program.add_slot(window(array, 0, -1), 4); }), "negative"));
  CHECK(test::has(test::error_of([&] { program.add_slot(window(array, 0, INT64_MAX), 16); }), "2^64"));
  CHECK(test::has(test::error_of([&] { program.add_slot(window(array, SIZE_MAX), 4); }), "64 bits"));
  CHECK(test::has(test::error_of([&] { program.add_node(node("n", call, {9}, {placed})); }), "unknown value 9"));
  CHECK(test::has(test::error_of([&] { program.add_node(node("n", call, {nowhere}, {placed})); }), "'n' reads"));
  CHECK(test::has(test::error_of([&] { program.add_node(node("n", call, {placed}, {nowhere})); }), "'n' writes"));
  Node odd = node("n", call, {placed}, {placed});
  odd.mutated = {1};
  CHECK(test::has(test::error_of([&] { program.add_node(odd); }), "no input 1"));
  Node silent = node("n", call, {nowhere}, {nowhere});
  silent.unread = {0};
  silent.req = {MX_REQ_NULL};
  program.add_node(silent);  // a shape is read, nothing is written
  CHECK(test::has(test::error_of([&] { program.seal({3}); }), "follow each other"));
  CHECK(test::has(test::error_of([&] { program.seal({0}); }), "leave nodes out"));
  CHECK(call.references == 2);
}

// A kernel that looks at shapes alone gets no address: neither of a value without memory, nor of one in an array that
// the operation does not wait for.
void values_that_are_not_read_have_no_address() {
  Fakes fakes;
  int runs = 0;
  mx_call call;
  call.body = [&runs](const mx_tensor* in, const mx_tensor* out, const uint8_t*, uint64_t) {
    CHECK(in[0].data == nullptr && in[1].data == nullptr && out[0].data != nullptr);
    CHECK(in[0].bytes == 4 && in[1].bytes == 4);
    ++runs;
    return static_cast<mx_failure*>(nullptr);
  };
  auto program = std::make_shared<Program>(fakes.tables(), kHost, "shapes");
  for (int i = 0; i < 2; ++i) program->add_array();
  const uint32_t nowhere = program->add_slot(window(kNoArray), 4);
  const uint32_t elsewhere = program->add_slot(window(1, 64), 4), out = program->add_slot(window(0), 4);
  Node looking = node("looking", call, {nowhere, elsewhere}, {out});
  looking.unread = {0, 1};
  program->add_node(std::move(looking));
  program->seal({1});
  mx_array result(1), other(32);
  std::make_shared<Binding>(program, std::vector<mx_array*>{&result, &other})->push(0, 0);
  CHECK(runs == 1 && fakes.pushed[0].reads.empty());
}

void too_small_arrays_are_refused() {
  Fakes fakes;
  Chain chain(fakes);
  mx_array in(1), out(1), small(16);
  const auto bind = [&](std::vector<mx_array*> arrays) {
    return test::error_of([&] { Binding binding(chain.program, arrays); });
  };
  CHECK(test::has(bind({&in, &out, &small}), "array 2: expected 68 bytes, got 64"));
  CHECK(test::has(bind({&in, &out}), "expected 3 arrays, got 2"));
  CHECK(in.references == 1);
}

void arrays_of_other_devices_are_refused() {
  Fakes fakes;
  Chain chain(fakes);
  mx_array in(1), out(1), arena(32);
  const auto bind = [&] {
    return test::error_of([&] { Binding binding(chain.program, std::vector<mx_array*>{&in, &out, &arena}); });
  };
  out.context = {MX_GPU, 1};
  CHECK(test::has(bind(), "array 1 lies on gpu(1) but the program runs on cpu(0)"));
  out.context = {77, 2};
  CHECK(test::has(bind(), "array 1 lies on device type 77 (2)"));
  out.context = {MX_CPU_SHARED, 3};  // the same memory
  { const Binding binding(chain.program, std::vector<mx_array*>{&in, &out, &arena}); }
  CHECK(in.references == 1 && out.references == 1);
}

void failures_name_the_node() {
  Fakes fakes;
  fakes.naive = true;
  Chain chain(fakes);
  chain.ten.name = "Convolution";
  chain.ten.body = [](const mx_tensor*, const mx_tensor*, const uint8_t*, uint64_t) {
    return mx::make_failure(MX_ERROR_SHAPE, "too odd");
  };
  mx_array in(1), out(1), arena(32);
  auto binding = std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &arena});
  try {
    binding->push(0, 0);
    CHECK(false);
  } catch (const mx::FailureError& error) {
    CHECK(error.failure.get()->code == MX_ERROR_SHAPE);
    CHECK(std::string(error.failure.get()->message) == "too odd (in node Convolution 'second')");
  }
}

void random_nodes_share_one_reservation() {
  Fakes fakes;
  std::vector<uint64_t> offsets;
  mx_call call;
  call.random_blocks = 7;
  call.body = [&](const mx_tensor*, const mx_tensor*, const uint8_t*, uint64_t offset) {
    offsets.push_back(offset);
    return static_cast<mx_failure*>(nullptr);
  };
  auto program = std::make_shared<Program>(fakes.tables(), kHost, "random");
  program->add_array();
  const uint32_t slot = program->add_slot(window(0), 4);
  program->add_node(node("a", call, {}, {slot}));
  program->add_node(node("b", call, {}, {slot}));
  program->seal({2});
  mx_array out(1);
  auto binding = std::make_shared<Binding>(program, std::vector<mx_array*>{&out});
  binding->push(0, 0);
  binding->push(0, 0);
  CHECK((offsets == std::vector<uint64_t>{100, 107, 114, 121}));
  Program without(fakes.tables(false), kHost, "random");
  without.add_array();
  without.add_slot(window(0), 4);
  CHECK(test::has(test::error_of([&] { without.add_node(node("a", call, {}, {0})); }), "random"));
  CHECK(call.references == 3);
}

void segments_end_where_they_are_full() {
  Fakes fakes;
  mx_call call;
  Program program(fakes.tables(), kHost, "limits");
  program.add_array();
  const uint32_t slot = program.add_slot(window(0), 4);
  for (int i = 0; i < 9; ++i) program.add_node(node("n", call, {}, {slot}));
  program.seal({5, 9}, {2, 0});
  CHECK(program.part(0).end - program.part(0).begin == 3);
  CHECK(program.part(1).end - program.part(1).begin == 1);
}

void bindings_run_from_several_threads() {
  Fakes fakes;
  Chain chain(fakes, true);
  mx_array arena(32);  // shared: it orders the runs
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      mx_array in(1), out(1), own(32);
      auto alone = std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &own});
      auto shared =
          std::make_shared<Binding>(chain.program, std::vector<mx_array*>{&in, &out, &arena});
      for (int i = 0; i < kRounds; ++i) {
        in.values[0] = static_cast<float>(t * kRounds + i);
        alone->push(0, 0);
        alone->push(1, 0);
        CHECK(out.values[0] == in.values[0] + 12);
        shared->push(0, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

// in -> [kept] -> out, of which the first node is prepared.
void prepared_nodes_run_when_what_they_read_has_changed() {
  Fakes fakes;
  mx_call one;
  int runs = 0;
  one.body = [&runs](const mx_tensor* in, const mx_tensor* out, const uint8_t*, uint64_t) {
    floats(out[0])[0] = floats(in[0])[0] + 1;
    ++runs;
    return static_cast<mx_failure*>(nullptr);
  };
  mx_call ten;
  ten.body = plus(10);
  auto program = std::make_shared<Program>(fakes.tables(), kHost, "prepared");
  for (int i = 0; i < 3; ++i) program->add_array();
  const uint32_t in = program->add_slot(window(0), 4), kept = program->add_slot(window(1), 4);
  const uint32_t out = program->add_slot(window(2), 4);
  Node first = node("first", one, {in}, {kept});
  first.prepared = true;
  program->add_node(std::move(first));
  program->add_node(node("second", ten, {kept}, {out}));
  program->seal({2});
  mx_array a(1), b(1), between(1), result(1);
  a.values[0] = 1;
  b.values[0] = 2;
  auto memo = std::make_shared<Memo>(*program);
  const auto run = [&](mx_array& input) {
    std::make_shared<Binding>(program, std::vector<mx_array*>{&input, &between, &result}, memo)->push(0, 0);
    return result.values[0];
  };
  CHECK(run(a) == 12 && runs == 1);
  CHECK(run(a) == 12 && runs == 1);
  a.values[0] = 5;
  ++a.own.version;
  CHECK(run(a) == 16 && runs == 2);
  CHECK(run(b) == 13 && runs == 3);
  CHECK(run(a) == 16 && runs == 4);
  CHECK(b.references == 1 && a.references == 2);
  memo.reset();
  program.reset();
  CHECK(a.references == 1);
}

void short_segments_may_run_inline() {
  for (const double microseconds : {1.0, 15.0}) {
    Fakes fakes;
    mx_call one;
    one.body = plus(1);
    auto program = std::make_shared<Program>(fakes.tables(), kHost, "short");
    program->add_array();
    const uint32_t value = program->add_slot(window(0), 4);
    for (int i = 0; i < 2; ++i) {
      Node made = node("add", one, {value}, {value});
      made.microseconds = microseconds;
      program->add_node(std::move(made));
    }
    program->seal({2});
    mx_array array(1);
    std::make_shared<Binding>(program, std::vector<mx_array*>{&array})->push(0, 0);
    const uint32_t inlined = microseconds < 10 ? MX_PUSH_INLINE : 0;
    CHECK(fakes.pushed[0].flags == (MX_PUSH_PARALLEL | inlined));
  }
}

int main() {
  short_segments_may_run_inline();
  prepared_nodes_run_when_what_they_read_has_changed();
  parts_run_in_order();
  a_binding_may_be_for_one_part();
  python_nodes_are_segments_of_their_own();
  memory_may_move_between_runs();
  arrays_that_share_a_variable_are_listed_once();
  references_are_given_back();
  wrong_programs_are_refused();
  values_that_are_not_read_have_no_address();
  too_small_arrays_are_refused();
  arrays_of_other_devices_are_refused();
  failures_name_the_node();
  random_nodes_share_one_reservation();
  segments_end_where_they_are_full();
  bindings_run_from_several_threads();
  std::puts("ok");
  return 0;
}
