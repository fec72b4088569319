// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "mx_core/failure.hpp"

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);  \
      std::abort();                                                                 \
    }                                                                               \
  } while (false)

// The message of the Error that `body` throws; aborts when it throws none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const mx::Error& error) {
    return error.what();
  }
  std::fprintf(stderr, "expected an error\n");
  std::abort();
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
