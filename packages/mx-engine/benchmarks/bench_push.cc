// SPDX-License-Identifier: Apache-2.0
//
// Question: how many empty native operations a second go through the engine, with inlining off,
// two workers, one pusher, construction included?
//
// Target `bench_push` of tests/cpp/CMakeLists.txt; configured with -DMX_BENCH_TBB=<prefix of oneTBB>
// (`pip install tbb-devel` puts it into the environment's prefix) it asks a flow graph of oneTBB the
// same question in the same run and prints the ratio.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "engine.h"

#ifdef MX_BENCH_TBB
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#endif

namespace {

using mx::engine::Engine;
using mx::engine::EngineOptions;

constexpr int kWorkers = 2;
constexpr int kOperations = 200000;
constexpr int kRepeats = 5;

// Which earlier operations an operation follows: as variables, and as edges.
struct Graph {
  const char* name;
  std::vector<std::vector<int>> reads, writes;  // variables
  std::vector<std::vector<int>> before;         // operations, for the baseline
  int variables;
};

Graph independent() {
  Graph g{"independent", {}, {}, {}, kOperations};
  for (int i = 0; i < kOperations; ++i) {
    g.reads.push_back({});
    g.writes.push_back({i});
    g.before.push_back({});
  }
  return g;
}

Graph chain() {
  Graph g{"one variable", {}, {}, {}, 1};
  for (int i = 0; i < kOperations; ++i) {
    g.reads.push_back({});
    g.writes.push_back({0});
    g.before.push_back(i == 0 ? std::vector<int>() : std::vector<int>{i - 1});
  }
  return g;
}

// Every operation writes a new variable and reads two of the last thousand.
Graph random_graph() {
  Graph g{"random graph", {}, {}, {}, kOperations};
  std::mt19937 random(7);
  for (int i = 0; i < kOperations; ++i) {
    std::vector<int> from;
    if (i > 2) {
      const int span = std::min(i, 1000);
      const int a = i - 1 - static_cast<int>(random() % span);
      const int b = i - 1 - static_cast<int>(random() % span);
      from.push_back(a);
      if (b != a) from.push_back(b);
    }
    g.reads.push_back(from);
    g.writes.push_back({i});
    g.before.push_back(from);
  }
  return g;
}

double best_of(const std::function<void()>& body) {
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

mx_failure* nothing(void*, const mx_run_context*) { return nullptr; }

void run_engine(const mx_engine_api* api, const Graph& g, uint32_t flags) {
  std::vector<mx_variable*> variables;
  for (int i = 0; i < g.variables; ++i) variables.push_back(api->new_variable(api->self));
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.context = {MX_CPU, 0};
  operation.name = "nothing";
  operation.flags = flags;
  operation.run = nothing;
  std::vector<mx_variable*> reads, writes;
  for (int i = 0; i < kOperations; ++i) {
    reads.clear();
    writes.clear();
    for (const int v : g.reads[i]) reads.push_back(variables[v]);
    for (const int v : g.writes[i]) writes.push_back(variables[v]);
    operation.reads = reads.data();
    operation.writes = writes.data();
    operation.n_reads = static_cast<uint32_t>(reads.size());
    operation.n_writes = static_cast<uint32_t>(writes.size());
    api->push(api->self, &operation, nullptr, nullptr);
  }
  api->wait_for_all(api->self, -1, nullptr, nullptr);
  for (mx_variable* v : variables) {
    api->delete_variable(api->self, v, {MX_CPU, 0}, nullptr, nullptr);
  }
}

#ifdef MX_BENCH_TBB
void run_baseline(const Graph& g) {
  using Node = oneapi::tbb::flow::continue_node<oneapi::tbb::flow::continue_msg>;
  oneapi::tbb::flow::graph graph;
  std::vector<std::unique_ptr<Node>> nodes;
  nodes.reserve(kOperations);
  oneapi::tbb::flow::broadcast_node<oneapi::tbb::flow::continue_msg> start(graph);
  for (int i = 0; i < kOperations; ++i) {
    nodes.push_back(std::make_unique<Node>(graph, [](const oneapi::tbb::flow::continue_msg&) {}));
    for (const int b : g.before[i]) oneapi::tbb::flow::make_edge(*nodes[b], *nodes[i]);
    if (g.before[i].empty()) oneapi::tbb::flow::make_edge(start, *nodes[i]);
  }
  start.try_put({});
  graph.wait_for_all();
}
#endif

}  // namespace

int main() {
  EngineOptions options;
  options.limits.compute = kWorkers;
  auto* engine = new Engine(options);
  const mx_engine_api* api = engine->table();
#ifdef MX_BENCH_TBB
  const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism, kWorkers);
#endif
  std::printf("%d empty operations, %d workers, best of %d\n", kOperations, kWorkers, kRepeats);
  for (const Graph& g : {independent(), chain(), random_graph()}) {
    const double ours = best_of([&] { run_engine(api, g, 0); });
    std::printf("%-14s %6.2f M/s", g.name, kOperations / ours / 1e6);
#ifdef MX_BENCH_TBB
    const double baseline = best_of([&] { run_baseline(g); });
    std::printf("   oneTBB flow graph %6.2f M/s   ratio %.2f", kOperations / baseline / 1e6, baseline / ours);
#endif
    const double inlined = best_of([&] { run_engine(api, g, MX_PUSH_INLINE); });
    std::printf("   inline %.0f ns", inlined / kOperations * 1e9);
    api->set_bulk_size(api->self, 15);
    const double bulk = best_of([&] { run_engine(api, g, 0); });
    api->set_bulk_size(api->self, 0);
    std::printf("   bulks of 15 %.2f M/s\n", kOperations / bulk / 1e6);
  }
  api->release(api->self);
}
