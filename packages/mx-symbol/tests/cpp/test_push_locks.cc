// SPDX-License-Identifier: Apache-2.0
//
// Parts of different programs on one arena: none comes between the operations of another.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "binding.hpp"
#include "mx_core/native_tests.hpp"
#include "nodes.hpp"

using mx::symbol::Binding;
using mx::symbol::Program;
using mx::symbol::PushLocks;

namespace {

// in -> the arena -> out, each adding one; of two segments if the second kernel is written in Python.
std::shared_ptr<Program> through_the_arena(Fakes& fakes, mx_call& first, mx_call& second) {
  auto program = std::make_shared<Program>(fakes.tables(), kHost, "through");
  for (int i = 0; i < 3; ++i) program->add_array(i == 2);
  const uint32_t in = program->add_slot(window(0), 4), out = program->add_slot(window(1), 4);
  const uint32_t between = program->add_slot(window(2), 4);
  program->add_node(node("first", first, {in}, {between}));
  program->add_node(node("second", second, {between}, {out}));
  program->seal({2});
  return program;
}

void one_segment_does_not_come_between_two() {
  Fakes fakes;
  mx_call native, python;
  native.body = python.body = plus(1);
  python.python = true;
  const auto two = through_the_arena(fakes, native, python);
  const auto one = through_the_arena(fakes, native, native);
  CHECK(two->segments().size() == 2 && one->segments().size() == 1);
  mx_array in(1), out(1), other_in(1), other_out(1), arena(1);
  other_in.values[0] = 100;
  auto longer = std::make_shared<Binding>(two, std::vector<mx_array*>{&in, &out, &arena});
  auto shorter = std::make_shared<Binding>(one, std::vector<mx_array*>{&other_in, &other_out, &arena});
  std::thread other;
  const std::thread::id mine = std::this_thread::get_id();
  std::atomic<int> pushes{0};
  fakes.before_push = [&] {
    if (std::this_thread::get_id() != mine || pushes.fetch_add(1) != 1) return;
    // Between the two operations of the longer part.
    other = std::thread([&] { shorter->push(0, 0); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  longer->push(0, 0);
  other.join();
  CHECK(out.values[0] == 2);
  CHECK(other_out.values[0] == 102);
}

void programs_without_an_arena_lock_nothing() {
  CHECK(PushLocks::of({}).empty());
  mx_variable variables[3];
  const PushLocks::Stripes stripes = PushLocks::of({&variables[0], &variables[1], &variables[0]});
  CHECK(!stripes.empty() && stripes.size() <= 2);
  { const PushLocks::Held held = PushLocks::hold(stripes); }
  const PushLocks::Held again = PushLocks::hold(stripes);
}

}  // namespace

int main() {
  one_segment_does_not_come_between_two();
  programs_without_an_arena_lock_nothing();
  std::puts("ok");
  return 0;
}
