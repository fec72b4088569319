// SPDX-License-Identifier: Apache-2.0
//
// What an operation that is not accepted is told.
#pragma once

#include <algorithm>
#include <cstdio>

#include "mx_core/failure.hpp"

namespace mx::engine {

// Sets the error of the operation `name`; returns the code.
inline int32_t refused(const char* name, mx_error* error, mx_status code, const char* text) noexcept {
  if (error == nullptr) return code;
  error->code = code;
  const int n = std::snprintf(error->message, sizeof error->message, "[%s] ",
                              name == nullptr ? "push" : name);
  const size_t used = std::min(static_cast<size_t>(n), sizeof error->message - 1);
  std::snprintf(error->message + used, sizeof error->message - used, "%s", text);
  return code;
}

}  // namespace mx::engine
