// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
      std::abort();                                                             \
    }                                                                           \
  } while (false)

#define CHECK_THROWS(statement)                                                 \
  do {                                                                          \
    bool thrown = false;                                                        \
    try {                                                                       \
      statement;                                                                \
    } catch (const mx::Error&) {                                                \
      thrown = true;                                                            \
    }                                                                           \
    CHECK(thrown);                                                              \
  } while (false)
