// SPDX-License-Identifier: Apache-2.0
//
// The record of mx_core.testing.benchmark for benchmarks written in C++: a line of JSON for each thing
// that is measured.
#pragma once

#include <cstdio>
#include <string>

namespace mx {

// `name` and `unit` are plain text without quotes or backslashes.  `ratio` says how many times better
// than `baseline` it is; none is given where `baseline` is NULL.
inline void record(const std::string& name, double value, const char* unit, const char* baseline = nullptr,
                   double ratio = 0) {
  std::printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"%s\", ", name.c_str(), value, unit);
  if (baseline == nullptr) {
    std::printf("\"baseline\": null, \"ratio\": null, \"spread\": null}\n");
  } else {
    std::printf("\"baseline\": \"%s\", \"ratio\": %.4g, \"spread\": null}\n", baseline, ratio);
  }
  std::fflush(stdout);
}

}  // namespace mx
