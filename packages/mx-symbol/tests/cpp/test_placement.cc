// SPDX-License-Identifier: Apache-2.0
//
// Offsets of blocks.
#include "placement.hpp"

#include <cstdio>
#include <stdexcept>

#include "mx_core/native_tests.hpp"

using mx::symbol::Block;
using mx::symbol::FlowLife;
using mx::symbol::Offsets;
using mx::symbol::place;
using mx::symbol::place_by_flow;
using mx::symbol::PlacementLimits;

namespace {

constexpr PlacementLimits kLinear = {0, 0}, kSearch = {100, 16};

// Two blocks, one after the other in the schedule: step 0 writes and step 1 reads the first, steps 2 and 3 the second.
const std::vector<Block> kPair = {{0, 1, 128}, {2, 3, 64}};

void blocks_share_memory_one_after_the_other() {
  for (const PlacementLimits& limits : {kLinear, kSearch}) {
    const Offsets placed = place(kPair, 128, limits);
    CHECK(placed.total == 128 && (placed.of == std::vector<uint64_t>{0, 0}));
  }
}

void by_flow_only_where_the_users_have_run_in_every_order() {
  const FlowLife first = {{0b0000}, {0b0011}};
  const std::vector<FlowLife> ordered = {first, {{0b0011}, {0b1100}}};
  const std::vector<FlowLife> one_reader_before = {first, {{0b0001}, {0b1100}}};
  for (const PlacementLimits& limits : {kLinear, kSearch}) {
    CHECK(place_by_flow(kPair, ordered, 128, limits).total == 128);
    const Offsets apart = place_by_flow(kPair, one_reader_before, 128, limits);
    CHECK(apart.total == 192 && apart.of[0] != apart.of[1]);
  }
}

void the_rest_of_a_range_stays_free() {
  const std::vector<Block> blocks = {{0, 0, 192}, {1, 2, 64}, {1, 2, 128}, {1, 2, 64}};
  const FlowLife later = {{0b001}, {0b110}};
  const Offsets placed = place_by_flow(blocks, {{{0}, {1}}, later, later, later}, 256, kLinear);
  CHECK(placed.total == 256 && (placed.of == std::vector<uint64_t>{0, 0, 64, 192}));
}

void sets_of_other_sizes_are_refused() {
  const std::vector<FlowLife> different = {{{0}, {0}}, {{0}, {0, 0}}};
  for (const std::vector<FlowLife>& lives : {std::vector<FlowLife>{}, different}) {
    bool refused = false;
    try {
      place_by_flow(kPair, lives, 128, kSearch);
    } catch (const std::out_of_range&) {
      refused = true;
    }
    CHECK(refused);
  }
}

}  // namespace

int main() {
  blocks_share_memory_one_after_the_other();
  by_flow_only_where_the_users_have_run_in_every_order();
  the_rest_of_a_range_stays_free();
  sets_of_other_sizes_are_refused();
  std::puts("ok");
  return 0;
}
