// SPDX-License-Identifier: Apache-2.0
#include "sort/sort.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "simd/loops.h"
#include "indexing/strided_copy.h"
#include "common/thread_pool.h"
#include "sort/rank.h"
#include "common/scratch.h"

namespace mx::vector {
namespace {

constexpr int64_t kGrainElements = 16 << 10;

thread_local ThreadMemory rank_memory_of_thread, row_memory;

class OrderPlan final : public Plan {
 public:
  OrderPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const OrderOptions& options)
      : Plan(std::move(inputs), std::move(outputs)), o_(options), table_(loops()) {
    if (inputs_[0].elements + inputs_[o_.data].elements > (64 << 10)) flags = MX_PLAN_PARALLEL | MX_PLAN_HEAVY;
  }

 protected:
  void execute(const Call& call) const override {
    std::vector<Target> targets;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Spec& spec = outputs_[i];
      if (!call.wanted(i) || spec.bytes == 0) continue;
      Target target{i, o_.results[i], std::unique_ptr<char[]>(call.adds(i) ? new char[spec.bytes] : nullptr), nullptr};
      target.out = target.aside ? target.aside.get() : call.output(i);
      if (target.result == Ranked::kMask || target.result == Ranked::kScatter) std::memset(target.out, 0, spec.bytes);
      targets.push_back(std::move(target));
    }
    if (targets.empty()) return;
    const int64_t grain = std::max<int64_t>(1, kGrainElements / o_.extent);
    const uint32_t threads = inputs_[o_.data].elements > kGrainElements ? call.context.threads : 1;
    parallel(threads, o_.outer * o_.inner, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) write_row(call, targets, row);
    });
    for (const Target& target : targets) {
      const Spec& spec = outputs_[target.output];
      if (target.aside) accumulate(spec.dtype, call.output(target.output), target.out, spec.elements);
    }
  }

 private:
  struct Target {
    size_t output;
    Ranked result;
    std::unique_ptr<char[]> aside;  // where the output is added to
    char* out;
  };

  void write_row(const Call& call, const std::vector<Target>& targets, int64_t row) const {
    const Spec& data = inputs_[o_.data];
    const int64_t outer = row / o_.inner, inner = row % o_.inner;
    const char* from =
        call.input(o_.data) + (outer * o_.extent * o_.inner + inner) * static_cast<int64_t>(item_size(data.dtype));
    const auto k = static_cast<size_t>(o_.k);
    char* memory = row_memory.get(k * (sizeof(int64_t) + 8));
    auto* positions = reinterpret_cast<int64_t*>(memory);
    rank(data.dtype, from, o_.inner, o_.extent, o_.k, o_.ascending,
         rank_memory_of_thread.get(rank_memory(data.dtype, o_.extent)), positions);
    for (const Target& target : targets) {
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
};

}  // namespace

PlanPtr make_order_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const OrderOptions& o) {
  const auto fail = [] { throw Error(MX_ERROR_SHAPE, "[order] the view does not fit the arrays"); };
  if (o.data >= inputs.size() || o.results.size() != outputs.size() || outputs.empty() || o.k < 0 || o.k > o.extent)
    fail();
  const int64_t rows = o.outer * o.inner;
  if (o.outer < 0 || o.inner < 0 || inputs[o.data].elements != rows * o.extent) fail();
  if (o.extent > INT32_MAX) throw Error(MX_ERROR_UNSUPPORTED, "[order] the axis is too long");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool along = o.results[i] == Ranked::kMask || o.results[i] == Ranked::kScatter;
    if (outputs[i].elements != rows * (along ? o.extent : o.k)) fail();
    if (o.results[i] == Ranked::kValues && outputs[i].dtype != inputs[o.data].dtype) fail();
    if (o.results[i] == Ranked::kScatter && (outputs[i].dtype != inputs[0].dtype || inputs[0].elements != rows * o.k))
      fail();
  }
  return std::make_unique<OrderPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::vector
