// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "mx_core/failure.hpp"

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                             \
    }                                                                           \
  } while (false)

// The message of the mx::Error that `body` must throw with `code`.
template <class Body>
std::string thrown(mx_status code, Body&& body) {
  try {
    body();
  } catch (const mx::Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  CHECK(!"nothing was thrown");
  return {};
}

inline bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}
