// SPDX-License-Identifier: Apache-2.0
//
// Programs whose branches run side by side, and prepared nodes in several segments.
#include <algorithm>
#include <thread>

#include "binding.hpp"
#include "mx_core/native_tests.hpp"
#include "nodes.hpp"

using mx::symbol::Binding;
using mx::symbol::Program;
using mx::symbol::Branch;

namespace {

// in -> a; b and c from a, each drawing a number; out from b and c.  The branches are a, c, b, out.
struct Fork {
  explicit Fork(Fakes& fakes, bool branches)
      : program(std::make_shared<Program>(fakes.tables(), kHost, "fork")) {
    one.body = plus(1);
    draw.random_blocks = 3;
    draw.body = [](const mx_tensor* in, const mx_tensor* out, const uint8_t*, uint64_t offset) {
      floats(out[0])[0] = floats(in[0])[0] * 1000 + static_cast<float>(offset);
      return static_cast<mx_failure*>(nullptr);
    };
    minus.body = [](const mx_tensor* in, const mx_tensor* out, const uint8_t*, uint64_t) {
      floats(out[0])[0] = floats(in[0])[0] - floats(in[1])[0];
      return static_cast<mx_failure*>(nullptr);
    };
    for (int i = 0; i < 3; ++i) program->add_array(i == 2);
    const uint32_t in = program->add_slot(window(0), 4), out = program->add_slot(window(1), 4);
    uint32_t at[3];
    for (size_t i = 0; i < 3; ++i) at[i] = program->add_slot(window(2, 64 * i), 4);
    std::vector<Node> nodes = {node("a", one, {in}, {at[0]}), node("b", draw, {at[0]}, {at[1]}),
                               node("c", draw, {at[0]}, {at[2]}), node("out", minus, {at[1], at[2]}, {out})};
    for (uint32_t i = 0; i < 4; ++i) nodes[i].order = i;
    if (branches) std::swap(nodes[1], nodes[2]);
    for (Node& made : nodes) {
      made.microseconds = 1000;
      program->add_node(std::move(made));
    }
    if (branches) {
      program->seal({3, 4}, {}, {{1, 0, {}}, {2, 1, {0}}, {3, 1, {0}}, {4, 0, {}}});
    } else {
      program->seal({3, 4});
    }
  }
  std::shared_ptr<Program> program;
  mx_call one, draw, minus;
};

bool reads(const Pushed& operation, mx_variable* variable) {
  return std::find(operation.reads.begin(), operation.reads.end(), variable) != operation.reads.end();
}

void branches_run_side_by_side_and_draw_the_same() {
  for (const bool branches : {false, true}) {
    Fakes fakes;
    Fork fork(fakes, branches);
    mx_array in(1), out(1), arena(48);
    in.values[0] = 1;
    auto binding = std::make_shared<Binding>(fork.program, std::vector<mx_array*>{&in, &out, &arena});
    binding->push(0, 0);
    binding->push(1, 0);
    CHECK(out.values[0] == -3);  // b drew before c
    CHECK(fakes.drawn == 106);
    CHECK(fork.draw.threads == (branches ? 1 : 0) && fork.minus.threads == 0);
    if (!branches) continue;
    const std::vector<Pushed>& pushed = fakes.pushed;
    CHECK(fakes.variables == 4 && pushed.size() == 6);
    // The barrier of a part takes the arena, and waits for what it may need of the part before.
    const std::vector<mx_variable*> arenas = {&arena.own};
    CHECK(pushed[0].writes == arenas && pushed[0].reads.empty());
    CHECK(pushed[4].writes == arenas && pushed[4].reads.size() == 3);
    // A branch reads the arena and what those it waits for write.
    CHECK(pushed[1].flags == MX_PUSH_PARALLEL && pushed[2].flags == 0);
    CHECK(reads(pushed[1], &in.own) && reads(pushed[1], &arena.own));
    for (const size_t branch : {size_t{2}, size_t{3}}) {
      CHECK(reads(pushed[branch], pushed[1].writes[0]) && reads(pushed[branch], &arena.own));
    }
    CHECK(!reads(pushed[3], pushed[2].writes[0]));
    binding.reset();
    CHECK(fakes.variables == 0);
  }
}

void parts_pushed_by_several_threads_do_not_mix() {
  Fakes fakes;
  Fork fork(fakes, true);
  mx_array arena(48);
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      mx_array in(1), out(1);
      auto binding = std::make_shared<Binding>(fork.program, std::vector<mx_array*>{&in, &out, &arena});
      for (int i = 0; i < 50; ++i) binding->push(0, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each part is its barrier, which alone writes the arena, and three branches.
  CHECK(fakes.pushed.size() == 4 * 50 * 4);
  for (size_t i = 0; i < fakes.pushed.size(); ++i) {
    const bool barrier = fakes.pushed[i].writes == std::vector<mx_variable*>{&arena.own};
    CHECK(barrier == (i % 4 == 0));
  }
}

void wrong_branches_are_refused() {
  const std::vector<std::pair<std::vector<Branch>, const char*>> wrong = {
      {{{1, 0, {}}}, "leave nodes out"},
      {{{2, 0, {}}, {1, 0, {}}, {3, 0, {}}}, "follow each other"},
      {{{1, 0, {1}}, {3, 0, {}}}, "waits for a later one"},
      {{{3, 0, {}}}, "reaches into the next part"},
      {{{1, 0, {}}, {9, 0, {}}}, "leave nodes out"},
  };
  for (const auto& [branches, message] : wrong) {
    Fakes fakes;
    Program program(fakes.tables(), kHost, "wrong");
    mx_call call;
    for (int i = 0; i < 2; ++i) program.add_array();
    const uint32_t in = program.add_slot(window(0), 4), out = program.add_slot(window(1), 4);
    for (int i = 0; i < 3; ++i) program.add_node(node("n", call, {in}, {out}));
    const std::vector<Branch>& given = branches;
    CHECK(test::has(test::error_of([&] { program.seal({1, 3}, {}, given); }), message));
  }
}

// A prepared node in C++, one in Python: what the first leaves in the arena does not last.
void prepared_segments_run_all_or_none() {
  Fakes fakes;
  mx_call one, sum, spoil;
  one.body = plus(1);
  sum.python = true;
  sum.body = [](const mx_tensor* in, const mx_tensor* made, const uint8_t*, uint64_t) {
    floats(made[0])[0] = floats(in[0])[0] + floats(in[1])[0];
    return static_cast<mx_failure*>(nullptr);
  };
  spoil.body = plus(1000);
  auto program = std::make_shared<Program>(fakes.tables(), kHost, "prepared");
  std::vector<uint32_t> at;  // left, right, held, result, between
  for (uint32_t i = 0; i < 5; ++i) {
    program->add_array();
    at.push_back(program->add_slot(window(i), 4));
  }
  Node first = node("first", one, {at[0]}, {at[4]}), second = node("second", sum, {at[4], at[1]}, {at[2]});
  first.prepared = second.prepared = true;
  program->add_node(std::move(first));
  program->add_node(std::move(second));
  program->add_node(node("spoil", spoil, {at[2]}, {at[4]}));
  program->add_node(node("last", one, {at[4]}, {at[3]}));
  program->seal({4});
  mx_array left(1), right(1), held(1), result(1), between(1);
  auto binding = std::make_shared<Binding>(
      program, std::vector<mx_array*>{&left, &right, &held, &result, &between});
  for (int i = 0; i < 3; ++i) {
    right.values[0] = static_cast<float>(i);
    ++right.own.version;
    binding->push(0, 0);
    CHECK(held.values[0] == 1 + static_cast<float>(i));
  }
}

}  // namespace

int main() {
  branches_run_side_by_side_and_draw_the_same();
  parts_pushed_by_several_threads_do_not_mix();
  wrong_branches_are_refused();
  prepared_segments_run_all_or_none();
  std::puts("ok");
  return 0;
}
