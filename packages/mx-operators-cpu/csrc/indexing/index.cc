// SPDX-License-Identifier: Apache-2.0
#include "common/shape.hpp"
#include "indexing/index.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "elementwise/broadcast.hpp"
#include "simd/accumulate.hpp"
#include "common/clones.hpp"
#include "simd/loops.hpp"
#include "indexing/strided_copy.hpp"
#include "mx_core/expression.h"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

MX_CLONES(void, clip, (int64_t* index, size_t n, int64_t last), (index, n, last)) {
  for (size_t i = 0; i < n; ++i) {
    const int64_t above = index[i] < 0 ? 0 : index[i];
    index[i] = above > last ? last : above;
  }
}

class IndexPlan final : public Plan {
 public:
  IndexPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const IndexOptions& options);

 protected:
  void execute(const Call& call) const override;
  bool stages(size_t, const uint8_t* req) const override {
    return req[0] == MX_REQ_ADD && o_.action != IndexAction::kAdd;
  }

 private:
  void bounded(int64_t* index, size_t n, int64_t extent) const;
  void unsigned_bounded(int64_t* index, size_t n, int64_t extent) const;
  [[noreturn]] void out_of_bounds(const std::string& index, int64_t extent) const;
  int64_t* rows(const Call& call) const;
  void gather(const Call& call, const int64_t* rows, char* out) const;
  void scatter(const Call& call, int64_t* rows, char* out) const;
  bool sums_wide() const;
  const int64_t* grouped(int64_t* rows) const;
  void add_groups(const char* in, const int64_t* rows, const int64_t* order, char* out, int64_t n) const;

  const IndexOptions o_;
  int64_t table_rows_;  // of one outer index
  int64_t row_;         // elements
  int64_t outer_;
  Section rows_;
};

IndexPlan::IndexPlan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                     const IndexOptions& options)
    : Plan(std::move(inputs), std::move(outputs)),
      o_(options),
      table_rows_(product(o_.extents)),
      row_(o_.inner),
      outer_(o_.outer) {
  const auto refuse = [&] {
    throw Error(MX_ERROR_SHAPE, "[" + o_.op + "] shapes of values and indices disagree");
  };
  if (o_.n < 0 || o_.inner < 0 || o_.outer < 0 || (o_.per_element && o_.extents.empty())) refuse();
  if (o_.per_element) {
    table_rows_ = o_.inner > 0 ? o_.n * o_.extents[0] : 0;
    row_ = 1;
    outer_ = 1;
  }
  const int64_t table = outer_ * table_rows_ * row_, taken = outer_ * o_.n * row_;
  const bool gathers = o_.action == IndexAction::kGather;
  const bool placed = !o_.per_element || o_.n == 0 || (o_.inner > 0 && o_.n % o_.inner == 0);
  const bool fits = placed && o_.values < inputs_.size() && o_.indices < inputs_.size() &&
                    outputs_.size() == 1 && outputs_[0].dtype == inputs_[o_.values].dtype &&
                    inputs_[o_.values].size() == (gathers ? table : taken) &&
                    outputs_[0].size() == (gathers ? taken : table) &&
                    inputs_[o_.indices].size() ==
                        o_.n * static_cast<int64_t>(o_.extents.size());
  if (!fits) refuse();
  if (o_.action == IndexAction::kAssign && inputs_[0].bytes() != outputs_[0].bytes()) refuse();
  rows_ = add_scratch<int64_t>(2 * o_.n);
}

void IndexPlan::out_of_bounds(const std::string& index, int64_t extent) const {
  throw Error(MX_ERROR_INDEX, "[" + o_.op + "] index " + index + " is out of bounds for extent " + std::to_string(extent));
}

// Of unsigned indices, whose upper half is negative here.
void IndexPlan::unsigned_bounded(int64_t* index, size_t n, int64_t extent) const {
  const auto limit = static_cast<uint64_t>(extent);
  for (size_t i = 0; i < n; ++i) {
    const auto value = static_cast<uint64_t>(index[i]);
    if (value < limit) continue;
    if (o_.bounds != Bounds::kClip && o_.bounds != Bounds::kWrap) out_of_bounds(std::to_string(value), extent);
    index[i] = static_cast<int64_t>(o_.bounds == Bounds::kClip ? limit - 1 : value % limit);
  }
}

// Indices within an extent, by the rule for those that are not.
void IndexPlan::bounded(int64_t* index, size_t n, int64_t extent) const {
  switch (o_.bounds) {
    case Bounds::kClip:
      return clip(index, n, extent - 1);
    case Bounds::kWrap:
      for (size_t i = 0; i < n; ++i) {
        if (index[i] >= 0 && index[i] < extent) continue;
        index[i] %= extent;
        if (index[i] < 0) index[i] += extent;
      }
      return;
    default:
      const int64_t lowest = o_.bounds == Bounds::kInside ? 0 : -extent;
      for (size_t i = 0; i < n; ++i) {
        if (index[i] < lowest || index[i] >= extent) out_of_bounds(std::to_string(index[i]), extent);
        if (index[i] < 0) index[i] += extent;
      }
  }
}

// The row of the table that each index names.
int64_t* IndexPlan::rows(const Call& call) const {
  const auto n = static_cast<size_t>(o_.n);
  auto* result = call.scratch<int64_t>(rows_);
  int64_t* column = result + n;
  const int dtype = inputs_[o_.indices].dtype;
  const Convert load = loops().load[dtype][I64];
  if (o_.extents.empty()) std::fill_n(result, n, 0);
  for (size_t k = 0; k < o_.extents.size(); ++k) {
    const int64_t extent = o_.extents[k];
    if (extent == 0)
      throw Error(MX_ERROR_INDEX, "[" + o_.op + "] cannot take " + std::to_string(n) +
                                      " elements of an axis of extent 0");
    int64_t* to = k == 0 ? result : column;
    load(to, call.input(o_.indices) + k * n * item_size(dtype), n);
    dtype == MX_UINT64 ? unsigned_bounded(to, n, extent) : bounded(to, n, extent);
    if (k > 0)
      for (size_t i = 0; i < n; ++i) result[i] = result[i] * extent + column[i];
  }
  if (o_.per_element && o_.inner == 1) {
    for (int64_t i = 0; i < o_.n; ++i) result[i] += i * o_.extents[0];
  } else if (o_.per_element) {
    for (int64_t i = 0, block = 0; i < o_.n; ++block)
      for (int64_t place = 0; place < o_.inner; ++place, ++i)
        result[i] = (block * o_.extents[0] + result[i]) * o_.inner + place;
  }
  return result;
}

void IndexPlan::execute(const Call& call) const {
  if (!call.wanted(0) || outputs_[0].bytes() == 0) return;
  const bool gathers = o_.action == IndexAction::kGather;
  const bool staged = stages(0, call.req);
  char* out = call.target(0);
  int64_t* names = o_.n > 0 ? rows(call) : nullptr;  // nothing is written if one is wrong
  if (o_.action == IndexAction::kAssign) {
    if (call.input(0) != out) std::memcpy(out, call.input(0), outputs_[0].bytes());
  } else if (!gathers && (staged || !call.adds(0))) {
    std::memset(out, 0, outputs_[0].bytes());
  }
  if (o_.n > 0) {
    gathers ? gather(call, names, out) : scatter(call, names, out);
  }
}

template <class T>
void gather_elements(char* out, const char* in, const int64_t* rows, int64_t n) {
  for (int64_t i = 0; i < n; ++i) reinterpret_cast<T*>(out)[i] = reinterpret_cast<const T*>(in)[rows[i]];
}

void gather_items(char* out, const char* in, const int64_t* rows, int64_t n, size_t item) {
  switch (item) {
    case 1:
      return gather_elements<uint8_t>(out, in, rows, n);
    case 2:
      return gather_elements<uint16_t>(out, in, rows, n);
    case 4:
      return gather_elements<uint32_t>(out, in, rows, n);
    default:
      return gather_elements<uint64_t>(out, in, rows, n);
  }
}

void IndexPlan::gather(const Call& call, const int64_t* rows, char* out) const {
  const size_t item = item_size(outputs_[0].dtype), bytes = static_cast<size_t>(row_) * item;
  const auto grain = std::max<int64_t>(1, (64 << 10) / static_cast<int64_t>(bytes + 1));
  parallel_for(outer_ * o_.n, grain, [&](int64_t begin, int64_t end) {
    char* to = out + static_cast<size_t>(begin) * bytes;
    for (int64_t done = begin; done < end;) {  // what belongs to one outer index
      const int64_t outer = done / o_.n, first = done % o_.n, some = std::min(end - done, o_.n - first);
      const char* in = call.input(o_.values) + static_cast<size_t>(outer * table_rows_) * bytes;
      if (row_ == 1) {
        gather_items(to, in, rows + first, some, item);
      } else {
        for (int64_t i = 0; i < some; ++i)
          std::memcpy(to + static_cast<size_t>(i) * bytes, in + static_cast<size_t>(rows[first + i]) * bytes, bytes);
      }
      to += static_cast<size_t>(some) * bytes;
      done += some;
    }
  });
}

// Whether sums are kept in a wider type than the table's: in 16 bits 256 + 1 is 256.
bool IndexPlan::sums_wide() const {
  const int dtype = outputs_[0].dtype;
  return o_.action == IndexAction::kAdd && !o_.per_element && floating(dtype) &&
         kStorageOf[compute_of(dtype)] != dtype;
}

// The places of the rows, those of equal rows side by side and in their order.
const int64_t* IndexPlan::grouped(int64_t* rows) const {
  int64_t* order = rows + o_.n;
  std::iota(order, order + o_.n, int64_t{0});
  std::sort(order, order + o_.n,
            [rows](int64_t a, int64_t b) { return rows[a] != rows[b] ? rows[a] < rows[b] : a < b; });
  return order;
}

// The first n elements of every row, summed in float32 and rounded once.
void IndexPlan::add_groups(const char* in, const int64_t* rows, const int64_t* order, char* out, int64_t n) const {
  constexpr int64_t kPiece = 512;
  const int dtype = outputs_[0].dtype;
  const Compute type = compute_of(dtype);
  const LoopTable& table = loops();
  const Loop add = table.op[type][MX_OP_ADD][0];
  const int64_t row_bytes = row_ * static_cast<int64_t>(item_size(dtype));
  alignas(64) char sum[kPiece * sizeof(float)], next[kPiece * sizeof(float)];
  for (int64_t begin = 0, end = 0; begin < o_.n; begin = end) {
    const int64_t row = rows[order[begin]];
    while (end < o_.n && rows[order[end]] == row) ++end;
    for (int64_t first = 0; first < n; first += kPiece) {
      const auto some = static_cast<size_t>(std::min(kPiece, n - first));
      const int64_t place = first * static_cast<int64_t>(item_size(dtype));
      char* to = out + row * row_bytes + place;
      table.load[dtype][type](sum, to, some);
      for (int64_t i = begin; i < end; ++i) {
        table.load[dtype][type](next, in + order[i] * row_bytes + place, some);
        add(sum, sum, next, nullptr, some);
      }
      table.store[type][dtype](to, sum, some);
    }
  }
}

// Threads share the elements of rows, or the outer indices: the order of additions is fixed.
void IndexPlan::scatter(const Call& call, int64_t* rows, char* out) const {
  const char* in = call.input(o_.values);
  const int dtype = outputs_[0].dtype;
  const auto item = static_cast<int64_t>(item_size(dtype));
  const int64_t* order = sums_wide() ? grouped(rows) : nullptr;
  const auto part = [&](int64_t outer, int64_t first, int64_t n) {
    if (order != nullptr)
      return add_groups(in + (outer * o_.n * row_ + first) * item, rows, order,
                        out + (outer * table_rows_ * row_ + first) * item, n);
    for (int64_t i = 0; i < o_.n; ++i) {
      const char* from = in + ((outer * o_.n + i) * row_ + first) * item;
      char* to = out + ((outer * table_rows_ + rows[i]) * row_ + first) * item;
      if (o_.action == IndexAction::kAdd) {
        accumulate(dtype, to, from, n);
      } else {
        std::memcpy(to, from, static_cast<size_t>(n * item));
      }
    }
  };
  if (outer_ > 1) {
    parallel_for(outer_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t outer = begin; outer < end; ++outer) part(outer, 0, row_);
    });
  } else {
    parallel_for(row_, 64,
             [&](int64_t begin, int64_t end) { part(0, begin, end - begin); });
  }
}

class OneHotPlan final : public Plan {
 public:
  OneHotPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t depth)
      : Plan(std::move(inputs), std::move(outputs), 2), depth_(depth) {
    if (inputs_.size() != 1 || outputs_.size() != 1 ||
        outputs_[0].size() != inputs_[0].size() * depth_)
      throw Error(MX_ERROR_SHAPE, "[one_hot] the output does not hold depth elements per index");
    index_ = add_scratch<int64_t>(inputs_[0].size());
  }

 protected:
  void execute(const Call& call) const override {
    const Spec& spec = outputs_[0];
    if (!call.wanted(0) || spec.bytes() == 0) return;
    const auto n = static_cast<size_t>(inputs_[0].size());
    const size_t item = item_size(spec.dtype);
    const LoopTable& table = loops();
    auto* index = call.scratch<int64_t>(index_);
    table.load[inputs_[0].dtype][I64](index, call.input(0), n);
    char* out = call.target(0);
    alignas(8) char on[8], off[8];
    const double values[2] = {call.scalar(0), call.scalar(1)};
    table.store[F64][spec.dtype](on, &values[0], 1);
    table.store[F64][spec.dtype](off, &values[1], 1);
    fill(out, off, spec.size(), item);
    for (size_t i = 0; i < n; ++i)
      if (index[i] >= 0 && index[i] < depth_)
        std::memcpy(out + (i * static_cast<size_t>(depth_) + static_cast<size_t>(index[i])) * item,
                    on, item);
  }

  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

 private:
  const int64_t depth_;
  Section index_;
};

}  // namespace

PlanPtr make_index_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                        const IndexOptions& options) {
  return std::make_unique<IndexPlan>(std::move(inputs), std::move(outputs), options);
}

PlanPtr make_one_hot_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t depth) {
  return std::make_unique<OneHotPlan>(std::move(inputs), std::move(outputs), depth);
}

}  // namespace mx::cpu
