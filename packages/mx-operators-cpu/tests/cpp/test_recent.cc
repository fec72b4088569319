// SPDX-License-Identifier: Apache-2.0
//
// What was worked out lately is not worked out again, and not kept for ever.
#include "onednn/recent.hpp"

#include <cstdio>
#include <stdexcept>

#include "mx_core/native_tests.hpp"

using mx::cpu::Recent;

namespace {

void a_key_is_asked_once() {
  Recent<int> recent(8);
  int asked = 0;
  const auto make = [&] { return ++asked; };
  CHECK(recent.get({1, 2}, make) == 1 && recent.get({1, 2}, make) == 1);
  CHECK(recent.get({1}, make) == 2 && asked == 2);
}

void what_throws_is_asked_again() {
  Recent<int> recent(8);
  for (int i = 0; i < 2; ++i) {
    bool failed = false;
    try {
      recent.get({1}, []() -> int { throw std::runtime_error("not yet"); });
    } catch (const std::runtime_error&) {
      failed = true;
    }
    CHECK(failed);
  }
  CHECK(recent.get({1}, [] { return 7; }) == 7);
}

void only_so_many_are_kept() {
  Recent<int> recent(2);
  int asked = 0;
  const auto make = [&] { return ++asked; };
  for (int64_t key = 0; key < 3; ++key) recent.get({key}, make);
  CHECK(recent.get({2}, make) == 3 && recent.get({0}, make) == 4);
}

}  // namespace

int main() {
  a_key_is_asked_once();
  what_throws_is_asked_again();
  only_so_many_are_kept();
  std::puts("ok");
  return 0;
}
