// SPDX-License-Identifier: Apache-2.0
//
// Values that share a block of memory.
#include "blocks.hpp"

#include <cstdio>
#include <stdexcept>

#include "mx_core/failure.hpp"
#include "mx_core/native_tests.hpp"

using mx::symbol::PlanStep;
using mx::symbol::share_blocks;
using mx::symbol::SharedBlocks;
using mx::symbol::Value;

namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

const Pairs kFirst = {{0, 0}};

// Each step reads the value of the one before it and may overwrite it.
std::vector<PlanStep> chain(uint32_t n) {
  std::vector<PlanStep> steps = {{{}, {0}}};
  for (uint32_t i = 1; i < n; ++i) steps.push_back({{i - 1}, {i}, &kFirst});
  return steps;
}

void a_chain_is_one_block() {
  const SharedBlocks made = share_blocks(chain(4), std::vector<Value>(4, Value{100}));
  CHECK(made.blocks.size() == 1);
  CHECK((made.blocks[0].values == std::vector<uint32_t>{0, 1, 2, 3}));
  CHECK(made.blocks[0].block.birth == 0 && made.blocks[0].block.death == 3 && made.blocks[0].block.size == 128);
  CHECK(made.live == 128);
}

void a_value_that_is_read_again_later_stays() {
  std::vector<PlanStep> steps = chain(3);
  steps.push_back({{0, 2}, {3}, nullptr});
  const SharedBlocks made = share_blocks(steps, std::vector<Value>(4, Value{64}));
  CHECK(made.blocks.size() == 3);
  CHECK((made.blocks[1].values == std::vector<uint32_t>{1, 2}));
  CHECK(made.lifetimes[0].last_read == 3 && made.live == 192);
}

void every_position_that_reads_must_tolerate_it() {
  const Pairs both = {{0, 0}, {1, 0}};
  for (const Pairs* pairs : {&kFirst, &both}) {
    const SharedBlocks made = share_blocks({{{}, {0}}, {{0, 0}, {1}, pairs}}, std::vector<Value>(2, Value{64}));
    CHECK(made.blocks.size() == (pairs == &both ? 1u : 2u));
  }
}

void one_input_is_taken_over_once() {
  const Pairs both = {{0, 0}, {0, 1}};
  const SharedBlocks made = share_blocks({{{}, {0}}, {{0}, {1, 2}, &both}}, std::vector<Value>(3, Value{64}));
  CHECK(made.blocks.size() == 2 && (made.blocks[0].values == std::vector<uint32_t>{0, 1}));
}

void what_ends_in_an_external_value_lies_there_from_a_step_on() {
  for (const int64_t from : {0, 1}) {
    std::vector<Value> values(2, Value{64});
    values[1] = {64, true, from};
    const SharedBlocks made = share_blocks(chain(2), values);
    CHECK(made.blocks.size() == 1 && made.blocks[0].host == (from == 0 ? 1 : -1));
    CHECK(made.live == (from == 0 ? 0u : 64u));
  }
}

void memory_is_not_taken_where_others_may_still_use_it() {
  const auto never = [](uint32_t, uint32_t) { return false; };
  CHECK(share_blocks(chain(3), std::vector<Value>(3, Value{64}), never).blocks.size() == 3);
}

void values_that_there_are_not_are_refused() {
  const Pairs beyond = {{7, 0}};
  for (const std::vector<PlanStep>& steps :
       {std::vector<PlanStep>{{{}, {9}}}, std::vector<PlanStep>{{{9}, {0}}}, std::vector<PlanStep>{{{}, {0}, &beyond}}}) {
    bool refused = false;
    try {
      share_blocks(steps, std::vector<Value>(1, Value{64}));
    } catch (const std::out_of_range&) {
      refused = true;
    }
    CHECK(refused);
  }
}

void an_arena_beyond_63_bits_is_refused() {
  for (const uint64_t bytes : {uint64_t{1} << 62, UINT64_MAX}) {
    bool refused = false;
    try {
      share_blocks({{{}, {0}}, {{}, {1}}, {{0, 1}, {}}}, std::vector<Value>(2, Value{bytes}));
    } catch (const mx::Error& error) {
      refused = error.code() == MX_ERROR_MEMORY;
    }
    CHECK(refused);
  }
}

}  // namespace

int main() {
  a_chain_is_one_block();
  a_value_that_is_read_again_later_stays();
  every_position_that_reads_must_tolerate_it();
  one_input_is_taken_over_once();
  what_ends_in_an_external_value_lies_there_from_a_step_on();
  memory_is_not_taken_where_others_may_still_use_it();
  values_that_there_are_not_are_refused();
  an_arena_beyond_63_bits_is_refused();
  std::puts("ok");
  return 0;
}
