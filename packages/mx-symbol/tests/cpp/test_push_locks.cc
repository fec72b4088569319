// SPDX-License-Identifier: Apache-2.0
//
// Parts of different programs on one arena, or of one that keeps what prepared nodes compute: none comes between the
// operations of another.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "binding.hpp"
#include "mx_core/native_tests.hpp"
#include "nodes.hpp"

using mx::symbol::Binding;
using mx::symbol::Memo;
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

// Another thread pushes `between` when the first operation of `longer` was pushed, and the second was not.
void push_both(Fakes& fakes, Binding& longer, Binding& between) {
  std::thread other;
  const std::thread::id mine = std::this_thread::get_id();
  std::atomic<int> pushes{0};
  fakes.before_push = [&] {
    if (std::this_thread::get_id() != mine || pushes.fetch_add(1) != 1) return;
    other = std::thread([&] { between.push(0, 0); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  longer.push(0, 0);
  other.join();
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
  push_both(fakes, *longer, *shorter);
  CHECK(out.values[0] == 2);
  CHECK(other_out.values[0] == 102);
}

// weight -> prepared, kept -> out.  Calls of one function share what is kept, with weights of their own.
void calls_that_share_prepared_values_do_not_come_between_each_other() {
  Fakes fakes;
  mx_call pack, use;
  pack.body = use.body = plus(1);
  const auto program = std::make_shared<Program>(fakes.tables(), kHost, "packed");
  for (int i = 0; i < 3; ++i) program->add_array();
  const uint32_t weight = program->add_slot(window(0), 4), kept = program->add_slot(window(1), 4);
  const uint32_t result = program->add_slot(window(2), 4);
  mx::symbol::Node packing = node("pack", pack, {weight}, {kept});
  packing.prepared = true;
  program->add_node(packing);
  program->add_node(node("use", use, {kept}, {result}));
  program->seal({2});
  const auto memo = std::make_shared<Memo>(*program);
  mx_array packed(1), mine(1), out(1), others(1), other_out(1);
  others.values[0] = 100;
  auto first = std::make_shared<Binding>(program, std::vector<mx_array*>{&mine, &packed, &out}, memo);
  auto second = std::make_shared<Binding>(program, std::vector<mx_array*>{&others, &packed, &other_out}, memo);
  push_both(fakes, *first, *second);
  CHECK(out.values[0] == 2);
  CHECK(other_out.values[0] == 102);
}

// A naive engine runs segments at the push: a part is one operation, whose variables keep others out.
void to_a_naive_engine_a_part_is_one_operation() {
  Fakes fakes;
  fakes.naive = true;
  mx_call native, python;
  native.body = plus(1);
  python.python = true;
  const auto two = through_the_arena(fakes, native, python);
  CHECK(two->segments().size() == 2);
  mx_array in(1), out(1), arena(1), inner_in(1), inner_out(1), inner_arena(1);
  const auto outer = std::make_shared<Binding>(two, std::vector<mx_array*>{&in, &out, &arena});
  const auto inner = std::make_shared<Binding>(two, std::vector<mx_array*>{&inner_in, &inner_out, &inner_arena});
  // An operation may push in turn, also from another thread that it waits for.
  bool nested = false;
  python.body = [&](const mx_tensor* from, const mx_tensor* to, const uint8_t* req, uint64_t offset) {
    if (!std::exchange(nested, true)) std::thread([&] { inner->push(0, 0); }).join();
    return plus(1)(from, to, req, offset);
  };
  outer->push(0, 0);
  CHECK(nested && out.values[0] == 2 && inner_out.values[0] == 2);
  CHECK(fakes.pushed.size() == 2);
  const std::vector<mx_variable*>& writes = fakes.pushed[0].writes;
  CHECK(std::count(writes.begin(), writes.end(), arena.variable) == 1);
  CHECK(std::count(writes.begin(), writes.end(), out.variable) == 1);
  CHECK(fakes.pushed[0].reads == std::vector<mx_variable*>{in.variable});
}

void where_nothing_is_handed_over_nothing_is_locked() {
  PushLocks::Stripes stripes{7};
  PushLocks::find({}, stripes);
  CHECK(stripes.empty());
  mx_variable variables[3];
  PushLocks::find({&variables[0], &variables[1], &variables[0]}, stripes);
  CHECK(!stripes.empty() && stripes.size() <= 2);
  { const PushLocks::Held held = PushLocks::hold(stripes); }
  const PushLocks::Held again = PushLocks::hold(stripes);
}

}  // namespace

int main() {
  one_segment_does_not_come_between_two();
  calls_that_share_prepared_values_do_not_come_between_each_other();
  to_a_naive_engine_a_part_is_one_operation();
  where_nothing_is_handed_over_nothing_is_locked();
  std::puts("ok");
  return 0;
}
