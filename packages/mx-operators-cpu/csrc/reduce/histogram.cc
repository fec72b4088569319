// SPDX-License-Identifier: Apache-2.0
#include "reduce/histogram.h"

#include <algorithm>
#include <atomic>

#include "simd/loops.h"
#include "common/thread_pool.h"
#include "common/upcast.h"

namespace mx::vector {
namespace {

constexpr int64_t kPiece = 64 << 10;  // elements a thread counts at a time

class HistogramPlan final : public Plan {
 public:
  HistogramPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> edges)
      : Plan(std::move(inputs), std::move(outputs)), edges_(std::move(edges)), even_(!edges_.empty()) {}

 protected:
  void execute(const Call& call) const override {
    std::vector<double> given;
    if (!even_) {
      given.resize(static_cast<size_t>(inputs_[1].elements));
      loops().load[inputs_[1].dtype][F64](given.data(), call.input(1), given.size());
      for (size_t i = 1; i < given.size(); ++i)
        if (!(given[i] >= given[i - 1]))
          throw Error(MX_ERROR_VALUE, "[_histogram] bins: expected ascending edges, got " +
                                          std::to_string(given[i]) + " behind " + std::to_string(given[i - 1]));
    }
    const std::vector<double>& edges = even_ ? edges_ : given;
    if (call.wanted(0)) count(call, edges);
    if (!call.wanted(1)) return;
    for (int64_t i = 0; i < outputs_[1].elements; i += kDelivered)
      deliver(call, 1, outputs_[1], F64, edges.data() + i, i, std::min(kDelivered, outputs_[1].elements - i));
  }

 private:
  void count(const Call& call, const std::vector<double>& edges) const {
    const int64_t n = inputs_[0].elements, bins = outputs_[0].elements;
    const uint32_t threads = flags != 0 ? std::max(call.context.threads, 1u) : 1;
    std::vector<std::vector<int64_t>> counts(threads);
    std::atomic<int64_t> next{0};
    parallel(threads, threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        std::vector<int64_t>& own = counts[static_cast<size_t>(t)];
        own.assign(static_cast<size_t>(bins), 0);
        for (int64_t first = next.fetch_add(kPiece); first < n; first = next.fetch_add(kPiece))
          count_piece(call, edges, first, std::min(first + kPiece, n), own.data());
      }
    });
    for (uint32_t t = 1; t < threads; ++t)
      for (size_t i = 0; i < static_cast<size_t>(bins); ++i) counts[0][i] += counts[t][i];
    auto* out = reinterpret_cast<int64_t*>(call.output(0));
    for (size_t i = 0; i < static_cast<size_t>(bins); ++i) out[i] = counts[0][i] + (call.adds(0) ? out[i] : 0);
  }

  void count_piece(const Call& call, const std::vector<double>& edges, int64_t begin, int64_t end,
                   int64_t* counts) const {
    alignas(64) double values[kDelivered];
    const int dtype = inputs_[0].dtype;
    for (int64_t i = begin; i < end; i += kDelivered) {
      const int64_t n = std::min(kDelivered, end - i);
      loops().load[dtype][F64](values, call.input(0) + i * static_cast<int64_t>(item_size(dtype)), static_cast<size_t>(n));
      even_ ? count_even(edges, values, n, counts) : count_any(edges, values, n, counts);
    }
  }

  static int64_t interval(const std::vector<double>& edges, double x) {
    const auto above = std::upper_bound(edges.begin(), edges.end(), x) - edges.begin();
    return std::min<int64_t>(above - 1, static_cast<int64_t>(edges.size()) - 2);
  }

  // A guess, which the edges themselves confirm or not.
  static void count_even(const std::vector<double>& edges, const double* values, int64_t n, int64_t* counts) {
    const auto bins = static_cast<int64_t>(edges.size()) - 1;
    const double low = edges.front(), high = edges.back(), scale = static_cast<double>(bins) / (high - low);
    for (int64_t i = 0; i < n; ++i) {
      const double x = values[i];
      if (!(x >= low && x <= high)) continue;
      const double guess = (x - low) * scale;
      const int64_t bin = guess < static_cast<double>(bins) ? static_cast<int64_t>(guess) : bins - 1;
      const auto b = static_cast<size_t>(bin);
      const bool right = x >= edges[b] && (bin == bins - 1 || x < edges[b + 1]);
      ++counts[right ? bin : interval(edges, x)];
    }
  }

  static void count_any(const std::vector<double>& edges, const double* values, int64_t n, int64_t* counts) {
    for (int64_t i = 0; i < n; ++i)
      if (values[i] >= edges.front() && values[i] <= edges.back()) ++counts[interval(edges, values[i])];
  }

  const std::vector<double> edges_;
  const bool even_;
};

}  // namespace

PlanPtr make_histogram_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> edges) {
  fits(inputs.size() == (edges.empty() ? 2u : 1u) && outputs.size() == 2 && outputs[0].dtype == MX_INT64 &&
           outputs[1].elements == outputs[0].elements + 1 && outputs[0].elements > 0 &&
           outputs[1].elements == (edges.empty() ? inputs[1].elements : static_cast<int64_t>(edges.size())),
       "_histogram");
  return std::make_unique<HistogramPlan>(std::move(inputs), std::move(outputs), std::move(edges));
}

}  // namespace mx::vector
