// SPDX-License-Identifier: Apache-2.0
#include "arg.h"

#include <algorithm>

#include "loops.h"
#include "movement.h"
#include "pool.h"

namespace mx::vector {
namespace {

constexpr int64_t kColumns = 256;

class ArgPlan final : public Plan {
 public:
  ArgPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t outer, int64_t extent,
          int64_t inner, bool largest)
      : Plan(std::move(inputs), std::move(outputs)),
        table_(loops()),
        outer_(outer),
        extent_(extent),
        inner_(inner),
        largest_(largest) {
    if (inputs_[0].elements != outer * extent * inner || outputs_[0].elements != outer * inner)
      throw Error(MX_ERROR_SHAPE, "[argmax] the view does not fit the arrays");
  }

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const uint32_t threads = inputs_[0].bytes > kParallelBytes ? call.context.threads : 1;
    const int64_t blocks = (inner_ + kColumns - 1) / kColumns;
    const int64_t grain = std::max<int64_t>(1, (64 << 10) / (extent_ * std::min(inner_, kColumns)));
    const Compute type = compute_of(inputs_[0].dtype);
    parallel(threads, outer_ * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t outer = unit / blocks, column = unit % blocks * kColumns;
        const int64_t n = std::min(kColumns, inner_ - column);
        type == F32   ? search<float, F32>(call, outer, column, n)
        : type == F64 ? search<double, F64>(call, outer, column, n)
        : type == I32 ? search<int32_t, I32>(call, outer, column, n)
                      : search<int64_t, I64>(call, outer, column, n);
      }
    });
  }

 private:
  template <class T>
  bool better(T x, T best) const {
    return (largest_ ? x > best : x < best) || (x != x && best == best);
  }

  // Columns [column, column + n) of one outer index.
  template <class T, Compute Type>
  void search(const Call& call, int64_t outer, int64_t column, int64_t n) const {
    T best[kColumns], row[kColumns];
    int64_t found[kColumns] = {};
    const int dtype = inputs_[0].dtype;
    const auto item = static_cast<int64_t>(item_size(dtype));
    const char* from = call.input(0) + (outer * extent_ * inner_ + column) * item;
    const Convert load = table_.load[dtype][Type];
    load(best, from, static_cast<size_t>(n));
    if (inner_ == 1) {  // along the row: convert many elements at once
      for (int64_t start = 0; start < extent_; start += kColumns) {
        const int64_t some = std::min(kColumns, extent_ - start);
        load(row, from + start * item, static_cast<size_t>(some));
        for (int64_t k = 0; k < some; ++k)
          if (better(row[k], best[0])) {
            best[0] = row[k];
            found[0] = start + k;
          }
      }
    } else {
      for (int64_t k = 1; k < extent_; ++k) {
        load(row, from + k * inner_ * item, static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) {
          const bool take = better(row[i], best[i]);
          best[i] = take ? row[i] : best[i];
          found[i] = take ? k : found[i];
        }
      }
    }
    const int out_type = outputs_[0].dtype;
    const auto out_item = static_cast<int64_t>(item_size(out_type));
    char* out = call.output(0) + (outer * inner_ + column) * out_item;
    if (!call.adds(0)) {
      table_.store[I64][out_type](out, found, static_cast<size_t>(n));
      return;
    }
    alignas(64) char stored[kColumns * 8];
    table_.store[I64][out_type](stored, found, static_cast<size_t>(n));
    accumulate(out_type, out, stored, n);
  }

  const LoopTable& table_;
  const int64_t outer_, extent_, inner_;
  const bool largest_;
};

}  // namespace

PlanPtr make_arg_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t outer,
                      int64_t extent, int64_t inner, bool largest) {
  if (inputs.size() != 1 || outputs.size() != 1 || extent < 1)
    throw Error(MX_ERROR_VALUE, "[argmax] expected one input, one output, a non-empty axis");
  return std::make_unique<ArgPlan>(std::move(inputs), std::move(outputs), outer, extent, inner,
                                   largest);
}

}  // namespace mx::vector
