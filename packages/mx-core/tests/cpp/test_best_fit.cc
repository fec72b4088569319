// SPDX-License-Identifier: Apache-2.0
//
// Arenas that are cut and grow together.  No memory is touched, so addresses are numbers.
#include "mx_core/best_fit.hpp"

#include <vector>

#include "mx_core/native_tests.hpp"

using mx::BestFit;

namespace {

char* at(uintptr_t address) { return reinterpret_cast<char*>(address); }

using Dropped = std::vector<std::pair<void*, size_t>>;

// Remembers what is dropped.
auto into(Dropped& dropped) {
  return [&dropped](void* begin, size_t length) { dropped.emplace_back(begin, length); };
}

void nothing_is_taken_from_nothing() {
  BestFit pieces;
  CHECK(pieces.take(1) == nullptr);
  pieces.add(at(1000), 100);
  CHECK(pieces.take(101) == nullptr && pieces.free_bytes() == 100);
  CHECK(pieces.take(100) == at(1000) && pieces.take(1) == nullptr);
  CHECK(pieces.free_bytes() == 0 && pieces.footprint() == 100);
}

void the_smallest_piece_that_fits_is_cut() {
  BestFit pieces;
  pieces.add(at(1000), 100);
  pieces.add(at(5000), 50);
  pieces.add(at(9000), 70);
  CHECK(pieces.take(60) == at(9000));
  CHECK(pieces.take(10) == at(9060));
  CHECK(pieces.take(50) == at(5000));
  CHECK(pieces.take(30) == at(1000) && pieces.take(30) == at(1030));
  CHECK(pieces.free_bytes() == 40 && pieces.footprint() == 220);
}

void neighbours_grow_together_in_any_order() {
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 1, 0}}) {
    BestFit pieces;
    pieces.add(at(1000), 90);
    for (uintptr_t i = 0; i < 3; ++i) CHECK(pieces.take(30) == at(1000 + 30 * i));
    for (const int i : order) pieces.give(at(1000 + 30 * static_cast<uintptr_t>(i)));
    CHECK(pieces.free_bytes() == 90);
    CHECK(pieces.take(90) == at(1000));
  }
}

void a_piece_in_use_keeps_its_neighbours_apart() {
  BestFit pieces;
  pieces.add(at(1000), 90);
  for (int i = 0; i < 3; ++i) CHECK(pieces.take(30) != nullptr);
  pieces.give(at(1000));
  pieces.give(at(1060));
  CHECK(pieces.free_bytes() == 60 && pieces.take(31) == nullptr);
}

void arenas_that_touch_stay_apart() {
  BestFit pieces;
  pieces.add(at(1000), 50);
  pieces.add(at(1050), 50);
  CHECK(pieces.take(50) == at(1000) && pieces.take(50) == at(1050));
  pieces.give(at(1000));
  pieces.give(at(1050));
  CHECK(pieces.take(51) == nullptr && pieces.free_bytes() == 100);
}

void arenas_are_dropped_when_they_are_wholly_free() {
  BestFit pieces;
  Dropped dropped;
  pieces.add(at(1000), 50);
  pieces.add(at(5000), 70);
  CHECK(pieces.take(50) == at(1000) && pieces.take(10) == at(5000) && pieces.take(10) == at(5010));
  pieces.give(at(5000), into(dropped));
  CHECK(dropped.empty());
  pieces.give(at(5010), into(dropped));
  CHECK((dropped == Dropped{{at(5000), 70}}) && pieces.footprint() == 50 && pieces.free_bytes() == 0);
  pieces.release(into(dropped));
  CHECK(dropped.size() == 1);  // the other is in use
  pieces.give(at(1000));
  pieces.release(into(dropped));
  CHECK(dropped.size() == 2 && (dropped[1] == std::pair<void*, size_t>{at(1000), 50}));
  CHECK(pieces.footprint() == 0 && pieces.free_bytes() == 0 && pieces.take(1) == nullptr);
}

}  // namespace

int main() {
  return test::run({
      {"nothing is taken from nothing", nothing_is_taken_from_nothing},
      {"the smallest piece that fits is cut", the_smallest_piece_that_fits_is_cut},
      {"neighbours grow together in any order", neighbours_grow_together_in_any_order},
      {"a piece in use keeps its neighbours apart", a_piece_in_use_keeps_its_neighbours_apart},
      {"arenas that touch stay apart", arenas_that_touch_stay_apart},
      {"arenas are dropped when they are wholly free", arenas_are_dropped_when_they_are_wholly_free},
  });
}
