// SPDX-License-Identifier: Apache-2.0
//
// A few lines instead of a test framework, for the programs that native_tests.cmake builds.
#ifndef MX_CORE_NATIVE_TESTS_HPP_
#define MX_CORE_NATIVE_TESTS_HPP_

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include "mx_core/failure.hpp"

// Ends the program with the place and the expression; unlike assert, in every build type.
#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

namespace test {

// The message of the mx::Error that `body` must throw, with this status where one is given.
template <class Body>
std::string error_of(Body&& body, int32_t code = MX_OK) {
  try {
    body();
  } catch (const mx::Error& error) {
    CHECK(code == MX_OK || error.code() == code);
    return error.what();
  }
  CHECK(!"an error was thrown");
  return {};
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Scenarios = std::initializer_list<std::pair<const char*, std::function<void()>>>;

// Runs the scenarios one after another, `between` after each.  Each is named when it starts, so that a hang has a
// name.  What main returns.
inline int run(Scenarios scenarios, const std::function<void()>& between = [] {}) {
  for (const auto& [name, scenario] : scenarios) {
    std::printf("%s\n", name);
    std::fflush(stdout);
    scenario();
    between();
  }
  return 0;
}

}  // namespace test

#endif  // MX_CORE_NATIVE_TESTS_HPP_
