// SPDX-License-Identifier: Apache-2.0
//
// Question: how many empty native operations a second go through the engine, with inlining off,
// two workers, one pusher, construction included, beside a flow graph of oneTBB?
//
// Target `bench_push` of tests/cpp/CMakeLists.txt, configured with -DMX_BENCH_TBB=<prefix of
// oneTBB> (`pip install tbb-devel` puts it into the environment's prefix); bench_native.py does so.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine.hpp"
#include "measure.hpp"
#include "mx_core/benchmark.hpp"

#ifdef MX_BENCH_TBB
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#endif

namespace {

using namespace mx::engine;
using mx::record;

constexpr int kWorkers = 2;
constexpr int kOperations = 100000;
constexpr int kRepeats = 9;

// Medians of what is measured in turns.
std::vector<double> medians(const std::vector<std::function<double()>>& measures) {
  std::vector<std::vector<double>> all(measures.size());
  for (int i = 0; i < kRepeats; ++i) {
    for (size_t m = 0; m < measures.size(); ++m) all[m].push_back(measures[m]());
  }
  std::vector<double> found;
  for (auto& times : all) {
    std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
    found.push_back(times[kRepeats / 2]);
  }
  return found;
}

#ifdef MX_BENCH_TBB
double run_baseline(const Workload& workload, bool chained) {
  namespace flow = oneapi::tbb::flow;
  using Node = flow::continue_node<flow::continue_msg>;
  const auto begin = std::chrono::steady_clock::now();
  auto graph = std::make_unique<flow::graph>();
  std::vector<std::unique_ptr<Node>> nodes;
  nodes.reserve(kOperations);
  flow::broadcast_node<flow::continue_msg> start(*graph);
  for (int i = 0; i < kOperations; ++i) {
    nodes.push_back(std::make_unique<Node>(*graph, [](const flow::continue_msg&) {}));
    if (chained && i > 0) flow::make_edge(*nodes[i - 1], *nodes[i]);
    for (const int b : workload.reads[i]) flow::make_edge(*nodes[b], *nodes[i]);
    if (workload.reads[i].empty() && !(chained && i > 0)) flow::make_edge(start, *nodes[i]);
  }
  start.try_put({});
  graph->wait_for_all();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
#endif

// An accelerator whose streams have done everything at once: what is left is the engine's part.
const mx_device_api* instant_device() {
  static mx_device_api device{};
  device.head = {sizeof device, MX_DEVICE_MAJOR, MX_DEVICE_MINOR};
  device.type = MX_FIRST_PLUGIN_DEVICE;
  device.count = [](void*) -> int32_t { return 1; };
  device.stream = [](void*, int32_t, int32_t, void** stream, mx_error*) -> int32_t {
    *stream = &device;
    return MX_OK;
  };
  device.record = [](void*, void*, mx_token** token, mx_error*) -> int32_t {
    *token = reinterpret_cast<mx_token*>(&device);
    return MX_OK;
  };
  device.reached = [](void*, mx_token*) -> int32_t { return 1; };
  device.wait = [](void*, mx_token*, mx_error*) -> int32_t { return MX_OK; };
  device.stream_wait = [](void*, void*, mx_token*, mx_error*) -> int32_t { return MX_OK; };
  device.release = [](void*, mx_token*) {};
  return &device;
}

double millions(double seconds) { return kOperations / seconds / 1e6; }

}  // namespace

int main() {
  EngineOptions options;
  options.limits.compute = kWorkers;
  const mx_engine_api* engine = (new Engine(options))->table();
#ifdef MX_BENCH_TBB
  const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism,
                                          kWorkers);
#endif
  std::printf("%d empty native operations, %d workers, medians of %d in turns\n", kOperations,
              kWorkers, kRepeats);
  const struct {
    const char* name;
    Workload workload;
    bool chained;
  } cases[] = {{"independent", independent(kOperations), false},
               {"one variable", one_variable(kOperations), true},
               {"random graph", random_graph(kOperations), false}};
  for (const auto& c : cases) {
    const auto bulk = [&] {
      engine->set_bulk_size(engine->self, 15);
      const double seconds = run(engine, c.workload, 0);
      engine->set_bulk_size(engine->self, 0);
      return seconds;
    };
    std::vector<std::function<double()>> measures = {
        [&] { return run(engine, c.workload, 0); },
        [&] { return run(engine, c.workload, MX_PUSH_INLINE); }, bulk};
#ifdef MX_BENCH_TBB
    measures.push_back([&] { return run_baseline(c.workload, c.chained); });
#endif
    const std::vector<double> times = medians(measures);
    const std::string name = c.name;
#ifdef MX_BENCH_TBB
    record(name, millions(times[0]), "M/s", "oneTBB flow graph", times[3] / times[0]);
#else
    record(name, millions(times[0]), "M/s");
#endif
    record(name + ", inline", times[1] / kOperations * 1e9, "ns");
    record(name + ", bulks of 15", millions(times[2]), "M/s");
  }
  engine->attach_device(engine->self, instant_device(), nullptr);
  const mx_context device{MX_FIRST_PLUGIN_DEVICE, 0};
  const std::vector<double> rest = medians({
      [&] { return hand_over(engine, 2000); },
      [&] { return run(engine, cases[0].workload, 0, device); },
      [&] { return run(engine, cases[1].workload, 0, device); },
  });
  record("push and wait", rest[0] * 1e6, "us");
  record("launched on a device, its part aside, independent", rest[1] / kOperations * 1e6, "us");
  record("launched on a device, its part aside, one variable", rest[2] / kOperations * 1e6, "us");
  engine->release(engine->self);
}
