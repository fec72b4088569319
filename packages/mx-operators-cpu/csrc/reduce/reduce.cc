// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kBlock = 1024;       // elements of a row that are converted and folded in float32
constexpr int64_t kLongBlock = 8192;   // likewise, without conversion
constexpr int64_t kShortRow = 4096;    // elements of rows that are folded many at a time
constexpr int64_t kColumns = 2048;      // columns folded together
constexpr int64_t kRowsPerFlush = 32;  // rows added in float32 before they go to double
constexpr int64_t kFewUnits = 8;       // below, single results are split between threads
constexpr int64_t kSplitElements = 64 << 10;

struct Axis {
  int64_t size, stride;
};

int64_t offset(int64_t index, const std::vector<Axis>& axes) {
  int64_t result = 0;
  for (size_t i = axes.size(); i-- > 0; index /= axes[i].size)
    result += index % axes[i].size * axes[i].stride;
  return result;
}

int64_t count(const std::vector<Axis>& axes) {
  int64_t n = 1;
  for (const Axis& axis : axes) n *= axis.size;
  return n;
}

// What joins partial results.
ReduceOp joining(ReduceOp op) {
  switch (op) {
    case kProd:
    case kNanProd:
      return kProd;
    case kMax:
    case kMin:
      return op;
    default:
      return kSum;
  }
}

bool is_extremum(ReduceOp op) { return op == kMax || op == kMin; }  // nothing is rounded

union Number {
  double real;
  int64_t integer;
};

Number neutral(ReduceOp op, bool real) {
  Number n;
  switch (joining(op)) {
    case kProd:
      real ? n.real = 1.0 : n.integer = 1;
      break;
    case kMax:
      real ? n.real = -std::numeric_limits<double>::infinity() : n.integer = INT64_MIN;
      break;
    case kMin:
      real ? n.real = std::numeric_limits<double>::infinity() : n.integer = INT64_MAX;
      break;
    default:
      n.integer = 0;  // also 0.0
  }
  return n;
}

class ReducePlan final : public Plan {
 public:
  ReducePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const ReduceOptions& options);

 protected:
  void execute(const Call& call) const override;

 private:
  const char* at(const Call& call, int64_t element) const {
    return call.input(0) + element * static_cast<int64_t>(item_);
  }
  // A result of few, or of long rows, is split into pieces whose totals meet in scratch memory.
  int64_t row_pieces() const { return (inner_ + kSplitElements - 1) / kSplitElements; }
  bool splits_rows() const { return n_kept_ < kFewUnits && n_reduced_ / inner_ * row_pieces() != 1; }
  int64_t rows_of_piece() const { return std::max<int64_t>(kRowsPerFlush, kSplitElements / std::min(inner_, kColumns)); }
  int64_t column_pieces() const {
    const int64_t rows = rows_of_piece();
    return count(kept_) * column_blocks_ < kFewUnits ? (n_reduced_ + rows - 1) / rows : 1;
  }
  void reduce_rows(const Call& call) const;
  void fold_piece(const char* from, int64_t n, Number* total) const;
  void reduce_columns(const Call& call) const;
  void fold_block(const Call& call, int64_t unit, int64_t first, int64_t last,
                  Number* totals) const;
  void finish(const Call& call, int64_t first, int64_t n, Number* totals) const;
  int64_t width(int64_t unit) const {
    return std::min(kColumns, inner_ - unit % column_blocks_ * kColumns);
  }

  const ReduceOptions options_;
  const LoopTable& table_;
  const Compute total_;  // F64 or I64
  Compute fold_;         // F32, F64 or I64
  const size_t item_;
  std::vector<Axis> kept_, reduced_;  // without the innermost axis
  bool inner_reduced_ = false;
  Section partial_;
  int64_t inner_ = 1, n_kept_ = 1, n_reduced_ = 1, column_blocks_ = 1, elements_ = 1;
};

ReducePlan::ReducePlan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                       const ReduceOptions& options)
    : Plan(std::move(inputs), std::move(outputs)),
      options_(options),
      table_(loops()),
      total_(compute_of(inputs_[0].dtype) == F32 || compute_of(inputs_[0].dtype) == F64 ||
                     options.root
                 ? F64
                 : I64),
      item_(item_size(inputs_[0].dtype)) {
  fold_ = total_ == F64 && compute_of(inputs_[0].dtype) == F32 ? F32 : total_;
  const Shape& shape = inputs_[0].shape;
  if (options_.reduced.size() != shape.size())
    throw Error(MX_ERROR_VALUE, "[reduce] " + std::to_string(options_.reduced.size()) +
                                    " axes are described, the input has " +
                                    std::to_string(shape.size()));
  struct Merged {
    int64_t size, stride;
    bool reduced;
  };
  std::vector<Merged> merged;  // innermost first
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    (options_.reduced[i] ? n_reduced_ : n_kept_) *= shape[i];
    if (shape[i] == 1) continue;
    if (!merged.empty() && merged.back().reduced == options_.reduced[i]) {
      merged.back().size *= shape[i];
    } else {
      merged.push_back({shape[i], stride, options_.reduced[i]});
    }
  }
  elements_ = n_reduced_;
  if (outputs_[0].size() != n_kept_)
    throw Error(MX_ERROR_SHAPE, "[reduce] the output has " + std::to_string(outputs_[0].size()) +
                                    " elements, the kept axes " + std::to_string(n_kept_));
  if (!merged.empty()) {
    inner_reduced_ = merged[0].reduced;
    inner_ = merged[0].size;
  } else {
    inner_reduced_ = true;
  }
  for (size_t i = merged.size(); i-- > 1;)
    (merged[i].reduced ? reduced_ : kept_).push_back({merged[i].size, merged[i].stride});
  column_blocks_ = inner_reduced_ ? 1 : (inner_ + kColumns - 1) / kColumns;
  if (n_kept_ == 0 || n_reduced_ == 0) return;
  if (inner_reduced_) {
    if (splits_rows()) partial_ = add_scratch<Number>(n_kept_ * (n_reduced_ / inner_) * row_pieces());
  } else if (column_pieces() > 1) {
    partial_ = add_scratch<Number>(count(kept_) * column_blocks_ * column_pieces() * kColumns);
  }
}

void ReducePlan::execute(const Call& call) const {
  if (!call.wanted(0) || n_kept_ == 0) return;
  if (n_reduced_ == 0) {
    for (int64_t i = 0; i < n_kept_; ++i) {
      Number total = neutral(options_.op, total_ == F64);
      finish(call, i, 1, &total);
    }
  } else if (inner_reduced_) {
    reduce_rows(call);
  } else {
    reduce_columns(call);
  }
}

// ---- the innermost axis is reduced: one total at a time ----

void ReducePlan::fold_piece(const char* from, int64_t n, Number* total) const {
  const Fold fold = table_.fold_row[fold_][options_.op];
  const Fold join = table_.fold_row[total_][joining(options_.op)];
  const bool convert = inputs_[0].dtype != kStorageOf[fold_];
  alignas(64) char block[kBlock * 8];
  const bool exact = is_extremum(options_.op);
  const int64_t most = convert ? kBlock : exact ? n : kLongBlock;
  for (int64_t done = 0; done < n; done += most) {
    const auto some = static_cast<size_t>(std::min(most, n - done));
    const char* data = from + done * static_cast<int64_t>(item_);
    if (convert) {
      table_.load[inputs_[0].dtype][fold_](block, data, some);
      data = block;
    }
    if (fold_ != F32) {
      fold(total, data, some);
      continue;
    }
    auto partial = static_cast<float>(neutral(options_.op, true).real);
    fold(&partial, data, some);
    const double wide = partial;
    join(total, &wide, 1);
  }
}

void ReducePlan::reduce_rows(const Call& call) const {
  const int64_t outer = n_reduced_ / inner_;
  const Number start = neutral(options_.op, total_ == F64);
  const int64_t pieces = row_pieces();
  if (!splits_rows()) {
    const int64_t grain = std::max<int64_t>(1, kSplitElements / n_reduced_);
    const bool together = outer == 1 && inner_ <= kShortRow && inputs_[0].dtype == MX_FLOAT32 && fold_ == F32;
    parallel_for(n_kept_, grain, [&](int64_t begin, int64_t end) {
      Number totals[256];
      for (int64_t first = begin; first < end; first += 256) {
        const int64_t n = std::min<int64_t>(256, end - first);
        if (together) {
          float partial[256];
          table_.fold_rows[options_.op](partial, reinterpret_cast<const float*>(at(call, first * inner_)),
                                        static_cast<size_t>(n), static_cast<size_t>(inner_));
          for (int64_t i = 0; i < n; ++i) totals[i].real = partial[i];
        }
        for (int64_t i = 0; i < n && !together; ++i) {
          const int64_t base = offset(first + i, kept_);
          totals[i] = start;
          for (int64_t r = 0; r < outer; ++r)
            fold_piece(at(call, base + offset(r, reduced_)), inner_, &totals[i]);
        }
        finish(call, first, n, totals);
      }
    });
    return;
  }
  auto* partial = call.scratch<Number>(partial_);
  std::fill_n(partial, n_kept_ * outer * pieces, start);
  parallel_for(n_kept_ * outer * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t piece = unit % pieces, row = unit / pieces;
      const int64_t base = offset(row / outer, kept_) + offset(row % outer, reduced_);
      const int64_t first = piece * kSplitElements;
      fold_piece(at(call, base + first), std::min(kSplitElements, inner_ - first),
                 &partial[unit]);
    }
  });
  const Fold join = table_.fold_row[total_][joining(options_.op)];
  for (int64_t i = 0; i < n_kept_; ++i) {
    Number total = start;
    join(&total, &partial[static_cast<size_t>(i * outer * pieces)],
         static_cast<size_t>(outer * pieces));
    finish(call, i, 1, &total);
  }
}

// ---- the innermost axis stays: a block of totals at a time ----

// Adds rows [first, last) of the reduced axes to the totals of one block of columns.
void ReducePlan::fold_block(const Call& call, int64_t unit, int64_t first, int64_t last,
                            Number* totals) const {
  const int64_t start = unit % column_blocks_ * kColumns;
  const auto columns = static_cast<size_t>(width(unit));
  const int64_t base = offset(unit / column_blocks_, kept_) + start;
  const Fold fold = table_.fold_columns[fold_][options_.op];
  const bool convert = inputs_[0].dtype != kStorageOf[fold_];
  alignas(64) char row[kColumns * 8 * 2];
  auto* partial = reinterpret_cast<float*>(row + kColumns * 8);
  const auto fill = static_cast<float>(neutral(options_.op, true).real);
  const bool exact = is_extremum(options_.op);
  for (int64_t r = first; r < last;) {
    const int64_t stop = fold_ == F32 && !exact ? std::min(last, r + kRowsPerFlush) : last;
    if (fold_ == F32) std::fill_n(partial, columns, fill);
    void* target = fold_ == F32 ? static_cast<void*>(partial) : static_cast<void*>(totals);
    if (!convert) {
      const int64_t step = reduced_.size() == 1 ? reduced_[0].stride : 0;
      for (; r + 4 <= stop; r += 4) {
        const void* rows[4];
        for (int64_t k = 0; k < 4; ++k)
          rows[k] = at(call, base + (step != 0 ? (r + k) * step : offset(r + k, reduced_)));
        table_.fold_four[fold_][options_.op](target, rows, columns);
      }
    }
    for (; r < stop; ++r) {
      const char* data = at(call, base + offset(r, reduced_));
      if (convert) {
        table_.load[inputs_[0].dtype][fold_](row, data, columns);
        data = row;
      }
      fold(target, data, columns);
    }
    if (fold_ == F32) table_.widen[options_.op](&totals->real, partial, columns);
  }
}

void ReducePlan::reduce_columns(const Call& call) const {
  const int64_t units = count(kept_) * column_blocks_;
  const Number start = neutral(options_.op, total_ == F64);
  const auto place = [&](int64_t unit) {
    return unit / column_blocks_ * inner_ + unit % column_blocks_ * kColumns;
  };
  const int64_t rows = rows_of_piece(), pieces = column_pieces();
  if (pieces == 1) {
    const int64_t grain = std::max<int64_t>(1, kSplitElements / (n_reduced_ * kColumns));
    parallel_for(units, grain, [&](int64_t begin, int64_t end) {
      Number totals[kColumns];
      for (int64_t unit = begin; unit < end; ++unit) {
        std::fill_n(totals, kColumns, start);
        fold_block(call, unit, 0, n_reduced_, totals);
        finish(call, place(unit), width(unit), totals);
      }
    });
    return;
  }
  auto* partial = call.scratch<Number>(partial_);
  std::fill_n(partial, units * pieces * kColumns, start);
  parallel_for(units * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * rows;
      fold_block(call, i / pieces, first, std::min(n_reduced_, first + rows),
                 &partial[i * kColumns]);
    }
  });
  const Fold join = table_.fold_columns[total_][joining(options_.op)];
  for (int64_t unit = 0; unit < units; ++unit) {
    Number* totals = &partial[unit * pieces * kColumns];
    for (int64_t piece = 1; piece < pieces; ++piece)
      join(totals, totals + piece * kColumns, static_cast<size_t>(width(unit)));
    finish(call, place(unit), width(unit), totals);
  }
}

// Writes n totals to the output from element `first` on.
void ReducePlan::finish(const Call& call, int64_t first, int64_t n, Number* totals) const {
  const auto size = static_cast<size_t>(n);
  const int64_t divisor = std::max<int64_t>(elements_, 1);
  const int dtype = outputs_[0].dtype;
  if (options_.mean && total_ == I64 && dtype != MX_INT64) {  // the sum wraps around before it is divided
    alignas(64) char narrow[kColumns * 8];
    table_.store[total_][dtype](narrow, totals, size);
    table_.load[dtype][total_](totals, narrow, size);
  }
  for (int64_t i = 0; i < n; ++i) {
    if (options_.mean && total_ == F64) totals[i].real /= static_cast<double>(elements_);  // of nothing: NaN
    if (options_.mean && total_ == I64) totals[i].integer /= divisor;
    if (options_.root) totals[i].real = std::sqrt(totals[i].real);
  }
  char* out = call.output(0) + first * static_cast<int64_t>(item_size(dtype));
  if (call.adds(0)) {
    alignas(64) char there[kColumns * 8];
    table_.load[dtype][total_](there, out, size);
    table_.op[total_][MX_OP_ADD][0](totals, totals, there, nullptr, size);
  }
  table_.store[total_][dtype](out, totals, size);
}

}  // namespace

PlanPtr make_reduce_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                         const ReduceOptions& options) {
  if (inputs.empty() || outputs.size() != 1)
    throw Error(MX_ERROR_VALUE, "[reduce] expected an input and one output");
  return std::make_unique<ReducePlan>(std::move(inputs), std::move(outputs), options);
}

}  // namespace mx::cpu
