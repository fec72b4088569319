// SPDX-License-Identifier: Apache-2.0
#include "sort/sort.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "common/parallel.hpp"
#include "sort/rank.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kGrainElements = 16 << 10;

constexpr size_t kMostResults = 4;

class OrderPlan final : public Plan {
 public:
  OrderPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const OrderOptions& options)
      : Plan(std::move(inputs), std::move(outputs)), o_(options), table_(loops()) {
    if (inputs_[0].size() + inputs_[o_.data].size() > (64 << 10)) set_parallel();
    memory_ = add_thread_scratch(aligned(static_cast<size_t>(o_.k) * (sizeof(int64_t) + 8)) +
                                 rank_memory(inputs_[o_.data].dtype, o_.extent));
  }

 protected:
  void execute(const Call& call) const override {
    std::array<Target, kMostResults> targets;
    size_t n = 0;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Spec& spec = outputs_[i];
      if (!call.wanted(i) || spec.bytes() == 0) continue;
      const Target target{i, o_.results[i], call.target(i)};
      if (target.result == Ranked::kMask || target.result == Ranked::kScatter) std::memset(target.out, 0, spec.bytes());
      targets[n++] = target;
    }
    if (n == 0) return;
    const int64_t grain = std::max<int64_t>(1, kGrainElements / o_.extent);
    parallel_for(o_.outer * o_.inner, grain, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t row = begin; row < end; ++row) write_row(call, targets.data(), n, row, thread);
    });
  }

  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }

 private:
  struct Target {
    size_t output;
    Ranked result;
    char* out;
  };

  void write_row(const Call& call, const Target* targets, size_t n_targets, int64_t row, int thread) const {
    const Spec& data = inputs_[o_.data];
    const int64_t outer = row / o_.inner, inner = row % o_.inner;
    const char* from =
        call.input(o_.data) + (outer * o_.extent * o_.inner + inner) * static_cast<int64_t>(item_size(data.dtype));
    const auto k = static_cast<size_t>(o_.k);
    char* memory = memory_.of(call, thread);
    auto* positions = reinterpret_cast<int64_t*>(memory);
    rank(data.dtype, from, o_.inner, o_.extent, o_.k, o_.ascending,
         memory + aligned(k * (sizeof(int64_t) + 8)), positions);
    for (size_t t = 0; t < n_targets; ++t) {
      const Target& target = targets[t];
      const int dtype = outputs_[target.output].dtype;
      const auto item = static_cast<int64_t>(item_size(dtype)), step = o_.inner * item;
      char* ranked = target.out + (outer * o_.k * o_.inner + inner) * item;       // (k) of this row
      char* along = target.out + (outer * o_.extent * o_.inner + inner) * item;  // (extent) of this row
      char* stored = memory + k * sizeof(int64_t);
      switch (target.result) {
        case Ranked::kValues:
          for (int64_t i = 0; i < o_.k; ++i) copy(ranked + i * step, from + positions[i] * step, item);
          break;
        case Ranked::kPositions:
          table_.store[I64][dtype](stored, positions, k);
          for (int64_t i = 0; i < o_.k; ++i) copy(ranked + i * step, stored + i * item, item);
          break;
        case Ranked::kMask: {
          const double one = 1.0;
          table_.store[F64][dtype](stored, &one, 1);
          for (int64_t i = 0; i < o_.k; ++i) copy(along + positions[i] * step, stored, item);
          break;
        }
        case Ranked::kScatter: {
          const char* source = call.input(0) + (outer * o_.k * o_.inner + inner) * item;
          for (int64_t i = 0; i < o_.k; ++i) copy(along + positions[i] * step, source + i * step, item);
          break;
        }
      }
    }
  }

  static void copy(char* to, const char* from, int64_t item) {
    if (item == 4) {
      std::memcpy(to, from, 4);
    } else {
      std::memcpy(to, from, static_cast<size_t>(item));
    }
  }

  const OrderOptions o_;
  const LoopTable& table_;
  PerThread memory_;
};

}  // namespace

PlanPtr make_order_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const OrderOptions& o) {
  const auto fail = [] { throw Error(MX_ERROR_SHAPE, "[order] the view does not fit the arrays"); };
  if (o.data >= inputs.size() || o.results.size() != outputs.size() || outputs.empty() || outputs.size() > kMostResults || o.k < 0 || o.k > o.extent)
    fail();
  const int64_t rows = o.outer * o.inner;
  if (o.outer < 0 || o.inner < 0 || inputs[o.data].size() != rows * o.extent) fail();
  if (o.extent > INT32_MAX) throw Error(MX_ERROR_UNSUPPORTED, "[order] the axis is too long");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool along = o.results[i] == Ranked::kMask || o.results[i] == Ranked::kScatter;
    if (outputs[i].size() != rows * (along ? o.extent : o.k)) fail();
    if (o.results[i] == Ranked::kValues && outputs[i].dtype != inputs[o.data].dtype) fail();
    if (o.results[i] == Ranked::kScatter && (outputs[i].dtype != inputs[0].dtype || inputs[0].size() != rows * o.k))
      fail();
  }
  return std::make_unique<OrderPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::cpu
