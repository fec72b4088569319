// SPDX-License-Identifier: Apache-2.0
//
// One plan run by several threads at once, as by an engine whose workers share a signature's plan: the thread
// sanitizer sees every access, and every run gives the bytes of the first.
#include <cstring>
#include <thread>

#include "any_request.hpp"
#include "vision/boxes.hpp"
#include "convolution/col2im.hpp"
#include "vision/correlation.hpp"
#include "loss/ctc.hpp"
#include "reduce/histogram.hpp"
#include "vision/multibox.hpp"
#include "vision/regions.hpp"
#include "vision/bilinear_sampler.hpp"
#include "reduce/scan.hpp"
#include "random/variates.hpp"

namespace {

// A plan with its arrays, as bytes.
struct Case {
  const char* name;
  Shared plan;
  std::vector<Spec> inputs, outputs;
  std::vector<std::vector<double>> values;  // of the inputs, in memory for the widest type
  std::vector<std::vector<double>> expected;
};

void put(std::vector<double>& memory, const Spec& spec, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (spec.dtype == MX_FLOAT64) memory[i] = values[i];
    if (spec.dtype == MX_FLOAT32) reinterpret_cast<float*>(memory.data())[i] = static_cast<float>(values[i]);
    if (spec.dtype == MX_INT64) reinterpret_cast<int64_t*>(memory.data())[i] = static_cast<int64_t>(values[i]);
  }
}

std::vector<double> room(const Spec& spec) { return std::vector<double>(static_cast<size_t>(spec.size()) + 1); }

mx_tensor window(std::vector<double>& memory, const Spec& spec) {
  mx_tensor t = tensor(memory, spec.dtype);
  t.bytes = static_cast<size_t>(spec.size()) * item_size(spec.dtype);
  return t;
}

using Results = std::vector<std::vector<double>>;

Results computed(const Case& c) {
  Results memory;
  std::vector<mx_tensor> given, made;
  auto values = c.values;
  for (size_t i = 0; i < c.inputs.size(); ++i) given.push_back(window(values[i], c.inputs[i]));
  for (const Spec& spec : c.outputs) memory.push_back(room(spec));
  for (size_t i = 0; i < c.outputs.size(); ++i) made.push_back(window(memory[i], c.outputs[i]));
  CHECK(run(c.plan, given, made) == MX_OK);
  return memory;
}

Case a_case(const char* name, PlanPtr plan, std::vector<Spec> inputs, std::vector<Spec> outputs,
            const std::vector<std::vector<double>>& values) {
  Case c{name, shared(std::move(plan)), std::move(inputs), std::move(outputs), {}, {}};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    c.values.push_back(room(c.inputs[i]));
    put(c.values.back(), c.inputs[i], values[i]);
  }
  c.expected = computed(c);
  return c;
}

std::vector<Case> all_cases() {
  const auto f32 = [](std::vector<int64_t> shape) { return Spec(std::move(shape), MX_FLOAT32); };
  const auto i64 = [](std::vector<int64_t> shape) { return Spec(std::move(shape), MX_INT64); };
  const auto x = [](int64_t n, double low = -1, double high = 1) { return numbers<double>(n, low, high); };
  std::vector<Case> cases;
  const auto add = [&](const char* name, std::vector<Spec> in, std::vector<Spec> out, const auto& make,
                       const std::vector<std::vector<double>>& values) {
    cases.push_back(a_case(name, make(in, out), in, out, values));
  };
  using Specs = const std::vector<Spec>&;

  std::vector<double> labels(4 * 9);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = 1 + static_cast<double>(i * i % 10);
  add("ctc", {f32({60, 4, 11}), i64({4, 9})}, {f32({4}), f32({60, 4, 11})},
      [](Specs in, Specs out) { return make_ctc_plan(in, out, {true, {}, {}}); }, {x(60 * 4 * 11), labels});
  add("box_nms", {f32({2, 300, 6})}, {f32({2, 300, 6}), i64({2, 300})},
      [](Specs in, Specs out) {
        return make_box_nms_plan(in, out, {0.3, -0.5, -1, 2, 1, 0, -1, false, true, false});
      }, {x(2 * 300 * 6)});
  add("box_iou", {f32({200, 4}), f32({37, 4})}, {f32({200, 37})},
      [](Specs in, Specs out) { return make_box_iou_plan(in, out, false); }, {x(800), x(148)});
  add("multibox_detection", {f32({2, 3, 200}), f32({2, 800}), f32({1, 200, 4})}, {f32({2, 200, 6})},
      [](Specs in, Specs out) {
        return make_multibox_detection_plan(in, out, {0.1, 0.5, true, false, -1, {0.1, 0.1, 0.2, 0.2}});
      }, {x(1200, 0, 1), x(1600), x(800, 0, 1)});
  std::vector<double> regions;
  for (int i = 0; i < 12; ++i) regions.insert(regions.end(), {double(i % 2), 1.0 * i, 2, 12, 9 + 0.5 * i});
  add("roi_align", {f32({2, 8, 14, 15}), f32({12, 5})}, {f32({12, 8, 3, 3})},
      [](Specs in, Specs out) { return make_roi_align_plan(in, out, {{3, 3, 0.5}, 2, false, true}); },
      {x(2 * 8 * 14 * 15), regions});
  add("roi_align backward", {f32({12, 8, 3, 3}), f32({2, 8, 14, 15}), f32({12, 5})}, {f32({2, 8, 14, 15})},
      [](Specs in, Specs out) { return make_roi_align_backward_plan(in, out, {{3, 3, 0.5}, 2, false, true}); },
      {x(12 * 72), x(2 * 8 * 14 * 15), regions});
  add("sampler", {f32({2, 17, 9, 8}), f32({2, 2, 6, 50})}, {f32({2, 17, 6, 50})},
      [](Specs in, Specs out) { return make_sampler_plan(in, out); }, {x(2 * 17 * 72), x(2 * 2 * 300)});
  add("sampler backward", {f32({2, 17, 6, 50}), f32({2, 17, 9, 8}), f32({2, 2, 6, 50})},
      {f32({2, 17, 9, 8}), f32({2, 2, 6, 50})},
      [](Specs in, Specs out) { return make_sampler_backward_plan(in, out); },
      {x(2 * 17 * 300), x(2 * 17 * 72), x(2 * 2 * 300)});
  const CorrelationOptions correlation{3, 2, 1, 2, 3, true};
  add("correlation", {f32({2, 3, 9, 12}), f32({2, 3, 9, 12})}, {f32({2, 9, 9, 12})},
      [&](Specs in, Specs out) { return make_correlation_plan(in, out, correlation); }, {x(648), x(648)});
  add("gamma", {f32({500}), f32({500})}, {f32({500, 7})},
      [](Specs in, Specs out) { return make_variate_plan(in, out, {"draw", Variate::kGamma, true, 7}); },
      {x(500, 0.1, 3), x(500, 0.5, 2)});
  add("poisson", {f32({500})}, {f32({500, 7})},
      [](Specs in, Specs out) { return make_variate_plan(in, out, {"draw", Variate::kPoisson, true, 7}); },
      {x(500, 0.1, 40)});
  add("multinomial", {f32({4, 30})}, {i64({4, 1000}), f32({4, 1000})},
      [](Specs in, Specs out) { return make_multinomial_plan(in, out, 1000); }, {x(120, 0, 1)});
  add("scan", {f32({3, 5000, 4})}, {f32({3, 5000, 4})},
      [](Specs in, Specs out) { return make_scan_plan(in, out, {3, 5000, 4, false}); }, {x(60'000)});
  add("histogram", {f32({50'000})}, {i64({4}), f32({5})},
      [](Specs in, Specs out) {
        return make_histogram_plan(in, out, {-1, -0.5, 0, 0.5, 1});
      }, {x(50'000)});
  const ColumnAxis axis{11, 3, 1, 1, 1};
  add("columns", {f32({2, 27, 121})}, {f32({2, 3, 11, 11})},
      [&](Specs in, Specs out) { return make_columns_to_image_plan(in, out, {axis, axis}); }, {x(2 * 27 * 121)});
  return cases;
}

}  // namespace

int main() {
  const std::vector<Case> cases = all_cases();
  constexpr size_t kThreads = 4, kRounds = 3;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&cases, t] {
      for (size_t i = 0; i < kRounds * cases.size(); ++i) {
        const Case& c = cases[(i * (t % 2 == 0 ? 1 : cases.size() - 1) + t / 2) % cases.size()];
        const Results found = computed(c);
        for (size_t k = 0; k < found.size(); ++k) {
          if (std::memcmp(found[k].data(), c.expected[k].data(), found[k].size() * sizeof(double)) == 0) continue;
          std::fprintf(stderr, "%s: output %zu differs\n", c.name, k);
          std::abort();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::puts("ok");
}
