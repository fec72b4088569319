// SPDX-License-Identifier: Apache-2.0
#include "reduce/histogram.hpp"

#include <algorithm>

#include "simd/loops.hpp"
#include "common/parallel.hpp"
#include "common/scratch.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kPiece = 64 << 10;  // elements a thread counts at a time

class HistogramPlan final : public Plan {
 public:
  HistogramPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> edges)
      : Plan(std::move(inputs), std::move(outputs)),
        edges_(std::move(edges)),
        even_(!edges_.empty()),
        bins_(outputs_[0].size()),
        given_(add_scratch<double>(even_ ? 0 : bins_ + 1)),
        counts_(add_thread_scratch(static_cast<size_t>(bins_) * sizeof(int64_t))) {}

 protected:
  void execute(const Call& call) const override {
    const Edges edges = even_ ? Edges(edges_.data(), edges_.size()) : given(call);
    if (call.wanted(0)) count(call, edges);
    if (!call.wanted(1)) return;
    for (int64_t i = 0; i < outputs_[1].size(); i += kDelivered)
      deliver(call, 1, outputs_[1], F64, edges.data() + i, i, std::min(kDelivered, outputs_[1].size() - i));
  }

 private:
  using Edges = Span<const double>;

  Edges given(const Call& call) const {
    auto* edges = call.scratch<double>(given_);
    const auto n = static_cast<size_t>(bins_ + 1);
    loops().load[inputs_[1].dtype][F64](edges, call.input(1), n);
    for (size_t i = 1; i < n; ++i)
      if (!(edges[i] >= edges[i - 1]))
        throw Error(MX_ERROR_VALUE, "[_histogram] bins: expected ascending edges, got " + std::to_string(edges[i]) +
                                        " behind " + std::to_string(edges[i - 1]));
    return {edges, n};
  }

  void count(const Call& call, Edges edges) const {
    const int team = std::min(threads(), team_size());
    for (int t = 0; t < team; ++t) std::fill_n(counts_.of<int64_t>(call, t), bins_, int64_t{0});
    parallel_for(inputs_[0].size(), kPiece, [&](int64_t begin, int64_t end, int thread) {
      count_piece(call, edges, begin, end, counts_.of<int64_t>(call, thread));
    });
    auto* out = call.output<int64_t>(0);
    for (int64_t i = 0; i < bins_; ++i) {
      int64_t sum = call.adds(0) ? out[i] : 0;
      for (int t = 0; t < team; ++t) sum += counts_.of<int64_t>(call, t)[i];
      out[i] = sum;
    }
  }

  void count_piece(const Call& call, Edges edges, int64_t begin, int64_t end,
                   int64_t* counts) const {
    alignas(64) double values[kDelivered];
    const int dtype = inputs_[0].dtype;
    for (int64_t i = begin; i < end; i += kDelivered) {
      const int64_t n = std::min(kDelivered, end - i);
      loops().load[dtype][F64](values, call.input(0) + i * static_cast<int64_t>(item_size(dtype)), static_cast<size_t>(n));
      even_ ? count_even(edges, values, n, counts) : count_any(edges, values, n, counts);
    }
  }

  static int64_t interval(Edges edges, double x) {
    const auto above = std::upper_bound(edges.begin(), edges.end(), x) - edges.begin();
    return std::min<int64_t>(above - 1, static_cast<int64_t>(edges.size()) - 2);
  }

  // A guess, which the edges themselves confirm or not.
  static void count_even(Edges edges, const double* values, int64_t n, int64_t* counts) {
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

  static void count_any(Edges edges, const double* values, int64_t n, int64_t* counts) {
    for (int64_t i = 0; i < n; ++i)
      if (values[i] >= edges.front() && values[i] <= edges.back()) ++counts[interval(edges, values[i])];
  }

  const std::vector<double> edges_;
  const bool even_;
  const int64_t bins_;
  const Section given_;
  const PerThread counts_;
};

}  // namespace

PlanPtr make_histogram_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> edges) {
  fits(inputs.size() == (edges.empty() ? 2u : 1u) && outputs.size() == 2 && outputs[0].dtype == MX_INT64 &&
           outputs[1].size() == outputs[0].size() + 1 && outputs[0].size() > 0 &&
           outputs[1].size() == (edges.empty() ? inputs[1].size() : static_cast<int64_t>(edges.size())),
       "_histogram");
  return std::make_unique<HistogramPlan>(std::move(inputs), std::move(outputs), std::move(edges));
}

}  // namespace mx::cpu
