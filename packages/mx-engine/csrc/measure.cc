// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <random>

namespace mx::engine {
namespace {

using Clock = std::chrono::steady_clock;

mx_failure* nothing(void*, const mx_run_context*) { return nullptr; }

mx_operation empty_operation(uint32_t flags) {
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.context = {MX_CPU, 0};
  operation.name = "nothing";
  operation.flags = flags;
  operation.run = nothing;
  return operation;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Workload independent(int operations) {
  Workload made{operations, std::vector<std::vector<int>>(operations), std::vector<int>(operations)};
  for (int i = 0; i < operations; ++i) made.writes[i] = i;
  return made;
}

Workload one_variable(int operations) {
  return {1, std::vector<std::vector<int>>(operations), std::vector<int>(operations)};
}

Workload random_graph(int operations) {
  Workload made = independent(operations);
  std::mt19937 random(7);
  for (int i = 3; i < operations; ++i) {
    const unsigned span = static_cast<unsigned>(std::min(i, 1000));
    const int a = i - 1 - static_cast<int>(random() % span);
    const int b = i - 1 - static_cast<int>(random() % span);
    made.reads[i].push_back(a);
    if (b != a) made.reads[i].push_back(b);
  }
  return made;
}

double run(const mx_engine_api* engine, const Workload& workload, uint32_t flags,
           mx_context context) {
  mx_operation operation = empty_operation(flags);
  operation.context = context;
  std::vector<mx_variable*> variables, reads;
  variables.reserve(workload.variables);
  const auto start = Clock::now();
  for (int i = 0; i < workload.variables; ++i) variables.push_back(engine->new_variable(engine->self));
  for (size_t i = 0; i < workload.writes.size(); ++i) {
    reads.clear();
    for (const int v : workload.reads[i]) reads.push_back(variables[v]);
    operation.reads = reads.data();
    operation.n_reads = static_cast<uint32_t>(reads.size());
    operation.writes = &variables[workload.writes[i]];
    operation.n_writes = 1;
    engine->push(engine->self, &operation, nullptr, nullptr);
  }
  engine->wait_for_all(engine->self, -1, nullptr, nullptr);
  const double seconds = seconds_since(start);
  for (mx_variable* v : variables) {
    engine->delete_variable(engine->self, v, {MX_CPU, 0}, nullptr, nullptr);
  }
  return seconds;
}

double hand_over(const mx_engine_api* engine, int rounds) {
  mx_operation operation = empty_operation(0);
  mx_variable* variable = engine->new_variable(engine->self);
  operation.writes = &variable;
  operation.n_writes = 1;
  const auto start = Clock::now();
  for (int i = 0; i < rounds; ++i) {
    engine->push(engine->self, &operation, nullptr, nullptr);
    engine->wait_for_variable(engine->self, variable, 0, -1, nullptr, nullptr);
  }
  const double seconds = seconds_since(start);
  engine->delete_variable(engine->self, variable, {MX_CPU, 0}, nullptr, nullptr);
  return seconds / rounds;
}

}  // namespace mx::engine
