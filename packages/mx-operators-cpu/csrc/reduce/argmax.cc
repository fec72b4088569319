// SPDX-License-Identifier: Apache-2.0
#include "reduce/argmax.hpp"

#include <algorithm>

#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "simd/accumulate.hpp"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kColumns = 1024;  // searched together
constexpr int64_t kPiece = 1024;    // of a row

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
    if (inputs_[0].size() != outer * extent * inner || outputs_[0].size() != outer * inner)
      throw Error(MX_ERROR_SHAPE, "[argmax] the view does not fit the arrays");
  }

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const int64_t blocks = (inner_ + kColumns - 1) / kColumns;
    const int64_t grain = std::max<int64_t>(1, (64 << 10) / (extent_ * std::min(inner_, kColumns)));
    const Compute type = compute_of(inputs_[0].dtype);
    parallel_for(outer_ * blocks, grain, [&](int64_t begin, int64_t end) {
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
    int64_t found[kColumns] = {};
    const char* from =
        call.input(0) + (outer * extent_ * inner_ + column) *
                            static_cast<int64_t>(item_size(inputs_[0].dtype));
    if (inner_ == 1) {
      found[0] = search_row<T, Type>(from);
    } else {
      search_columns<T, Type>(from, n, found);
    }
    deliver(call, outer * inner_ + column, n, found);
  }

  // Piece by piece: its extremum first, then where that is, if it is the best so far.
  template <class T, Compute Type>
  int64_t search_row(const char* from) const {
    const int dtype = inputs_[0].dtype;
    const Convert load = table_.load[dtype][Type];
    const Fold fold = table_.fold_row[Type][largest_ ? kMax : kMin];
    T best, row[kPiece];
    load(&best, from, 1);
    int64_t found = 0;
    for (int64_t start = 0; start < extent_; start += kPiece) {
      const auto some = static_cast<size_t>(std::min(kPiece, extent_ - start));
      const char* data = from + start * static_cast<int64_t>(item_size(dtype));
      if (dtype != kStorageOf[Type]) {
        load(row, data, some);
        data = reinterpret_cast<const char*>(row);
      }
      const T* x = reinterpret_cast<const T*>(data);
      T extremum = x[0];
      fold(&extremum, x, some);
      if (!better(extremum, best)) continue;
      best = extremum;
      size_t k = 0;
      while (!(x[k] == extremum || (x[k] != x[k] && extremum != extremum))) ++k;
      found = start + static_cast<int64_t>(k);
    }
    return found;
  }

  template <class T, Compute Type>
  void search_columns(const char* from, int64_t n, int64_t* found) const {
    const int dtype = inputs_[0].dtype;
    const auto item = static_cast<int64_t>(item_size(dtype));
    const auto size = static_cast<size_t>(n);
    const Convert load = table_.load[dtype][Type];
    T best[kColumns], row[kColumns];
    int32_t index[kColumns];
    load(best, from, size);
    // Positions are counted in 32 bits, in stretches that these hold.
    for (int64_t base = 0; base < extent_; base += INT32_MAX) {
      std::fill_n(index, n, -1);
      const int64_t stop = std::min<int64_t>(extent_ - base, INT32_MAX);
      for (int64_t k = 0; k < stop; ++k) {
        const char* data = from + (base + k) * inner_ * item;
        if (dtype != kStorageOf[Type]) {
          load(row, data, size);
          data = reinterpret_cast<const char*>(row);
        }
        table_.best_of[Type](best, index, data, static_cast<int32_t>(k), largest_, size);
      }
      for (int64_t i = 0; i < n; ++i)
        if (index[i] >= 0) found[i] = base + index[i];
    }
  }

  // Writes n positions to the output from element `first` on.
  void deliver(const Call& call, int64_t first, int64_t n, const int64_t* found) const {
    const int out_type = outputs_[0].dtype;
    const auto out_item = static_cast<int64_t>(item_size(out_type));
    char* out = call.output(0) + first * out_item;
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

}  // namespace mx::cpu
