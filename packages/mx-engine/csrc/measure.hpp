// SPDX-License-Identifier: Apache-2.0
//
// How fast an engine is, seen through its table: for benchmarks and `mx engine bench`.
#pragma once

#include <cstdint>
#include <vector>

#include "mx_core/engine.h"

namespace mx::engine {

// Operations that do nothing, and which of them come after which.
struct Workload {
  int variables = 0;
  std::vector<std::vector<int>> reads;  // of each operation
  std::vector<int> writes;              // the one variable each operation writes
};
Workload independent(int operations);
Workload one_variable(int operations);
// Every operation writes a new variable and reads one or two of the last thousand.
Workload random_graph(int operations);

// Seconds from the first variable's creation to the end of the last operation.
double run(const mx_engine_api* engine, const Workload& workload, uint32_t flags,
           mx_context context = {MX_CPU, 0});
// Seconds from a push to the return of the wait for it, on average of `rounds`.
double hand_over(const mx_engine_api* engine, int rounds);

}  // namespace mx::engine
