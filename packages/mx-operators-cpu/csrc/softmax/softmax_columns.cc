// SPDX-License-Identifier: Apache-2.0
//
// Softmax in float32 along an axis whose numbers lie apart: neighbouring columns side by side, where they are, or
// copied to lie so.
#include "softmax/softmax_columns.hpp"

#include <algorithm>
#include <cmath>

#include "common/clones.hpp"
#include "softmax/row_loops.hpp"
#include "softmax/softmax_rows.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kColumns = 64;  // side by side
constexpr int64_t kWide = 16;     // columns from which they are taken where they are
constexpr int64_t kShort = 64;    // numbers of a column that is copied, at most

// Sums of columns in floats enter doubles now and then.
template <class Add>
MX_INLINE void sum_columns(int64_t length, int64_t n, double* total, const Add& add) {
  std::fill_n(total, n, 0.0);
  for (int64_t begin = 0; begin < length; begin += kRun) {
    float sum[kColumns] = {};
    for (int64_t l = begin; l < std::min(length, begin + kRun); ++l) add(l, sum);
    for (int64_t i = 0; i < n; ++i) total[i] += sum[i];
  }
}

// n columns whose numbers are `step` apart; y may be x.
MX_CLONES(void, columns, (const float* x, float* y, int64_t length, int64_t step, int64_t n, float factor,
                          bool logarithm), (x, y, length, step, n, factor, logarithm)) {
  float top[kColumns], last[kColumns];
  double total[kColumns];
  std::copy_n(x, n, top);
  // A negative temperature turns the order around: the largest exponent is that of the least x.
  for (int64_t l = 1; l < length; ++l) {
    const float* line = x + l * step;
    if (factor < 0) for (int64_t i = 0; i < n; ++i) top[i] = line[i] < top[i] ? line[i] : top[i];
    else for (int64_t i = 0; i < n; ++i) top[i] = larger(line[i], top[i]);
  }
  if (logarithm) {
    sum_columns(length, n, total, [=](int64_t l, float* sum) MX_INLINE_LAMBDA {
      for (int64_t i = 0; i < n; ++i) sum[i] += power((x[l * step + i] - top[i]) * factor);
    });
    for (int64_t i = 0; i < n; ++i) last[i] = static_cast<float>(std::log(total[i]));
    for (int64_t l = 0; l < length; ++l)
      for (int64_t i = 0; i < n; ++i) y[l * step + i] = (x[l * step + i] - top[i]) * factor - last[i];
    return;
  }
  sum_columns(length, n, total, [=](int64_t l, float* sum) MX_INLINE_LAMBDA {
    for (int64_t i = 0; i < n; ++i) {
      const float value = power((x[l * step + i] - top[i]) * factor);
      y[l * step + i] = value;
      sum[i] += value;
    }
  });
  for (int64_t i = 0; i < n; ++i) last[i] = static_cast<float>(1 / total[i]);
  for (int64_t l = 0; l < length; ++l)
    for (int64_t i = 0; i < n; ++i) y[l * step + i] *= last[i];
}

// d = (g - along * weight) * factor: of softmax y weighs both, of its logarithm exp(y) the sum alone.
MX_CLONES(void, column_gradients, (const float* g, const float* y, float* d, int64_t length, int64_t step, int64_t n,
                                   float factor, bool logarithm), (g, y, d, length, step, n, factor, logarithm)) {
  double total[kColumns];
  float along[kColumns];
  sum_columns(length, n, total, [=](int64_t l, float* sum) MX_INLINE_LAMBDA {
    const float *head = g + l * step, *out = y + l * step;
    if (logarithm) for (int64_t i = 0; i < n; ++i) sum[i] += head[i];
    else for (int64_t i = 0; i < n; ++i) sum[i] += head[i] * out[i];
  });
  for (int64_t i = 0; i < n; ++i) along[i] = static_cast<float>(total[i]);
  for (int64_t l = 0; l < length; ++l) {
    const float *head = g + l * step, *out = y + l * step;
    float* to = d + l * step;
    if (logarithm) for (int64_t i = 0; i < n; ++i) to[i] = (head[i] - exp32(out[i]) * along[i]) * factor;
    else for (int64_t i = 0; i < n; ++i) to[i] = (head[i] - along[i]) * out[i] * factor;
  }
}

class ColumnSoftmax final : public Plan {
 public:
  ColumnSoftmax(const Signature& s, const SoftmaxOptions& o, bool backward)
      : Plan(s, {20.0 * static_cast<double>(s.outputs[0].size()), 2.0 * static_cast<double>(s.outputs[0].bytes())}),
        v_(o.view, o.axis), factor_(static_cast<float>(1 / o.temperature)), logarithm_(o.logarithm),
        backward_(backward) {
    require_float(s);
    const int64_t size = s.outputs[0].size();
    if (product(o.view) != size || s.inputs.size() < (backward ? 2 : 1) || s.inputs[0].size() != size ||
        (backward && s.inputs[1].size() != size))
      throw Unsupported{};
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0) || v_.length == 0) return;
    const float *x = call.input<float>(0), *y = backward_ ? call.input<float>(1) : nullptr;
    float* to = call.target<float>(0);
    const bool wide = v_.inner >= kWide;
    const int64_t blocks = wide ? v_.outer * pieces(v_.inner) : pieces(v_.outer * v_.inner);
    parallel_shares(blocks, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) wide ? in_place(x, y, to, b) : copied(x, y, to, b);
    });
  }
  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

  static int64_t pieces(int64_t n) { return (n + kColumns - 1) / kColumns; }

  void compute(const float* x, const float* y, float* to, int64_t step, int64_t n) const {
    if (backward_) column_gradients(x, y, to, v_.length, step, n, factor_, logarithm_);
    else columns(x, to, v_.length, step, n, factor_, logarithm_);
  }

  void in_place(const float* x, const float* y, float* to, int64_t block) const {
    const int64_t of_outer = pieces(v_.inner), column = block % of_outer * kColumns;
    const int64_t at = block / of_outer * v_.length * v_.inner + column;
    compute(x + at, backward_ ? y + at : nullptr, to + at, v_.inner, std::min(kColumns, v_.inner - column));
  }

  void copied(const float* x, const float* y, float* to, int64_t block) const {
    float given[kShort * kColumns], other[kShort * kColumns], result[kShort * kColumns];
    const int64_t first = block * kColumns, n = std::min(kColumns, v_.outer * v_.inner - first);
    const int64_t rounded = (n + kBlock - 1) / kBlock * kBlock;  // whole vectors
    gather(x, first, n, rounded, given);
    if (backward_) gather(y, first, n, rounded, other);
    compute(given, other, result, kColumns, rounded);
    for_columns(first, n, [&](int64_t i, int64_t at) {
      for (int64_t l = 0; l < v_.length; ++l) to[at + l * v_.inner] = result[l * kColumns + i];
    });
  }

  void gather(const float* from, int64_t first, int64_t n, int64_t rounded, float* lines) const {
    for (int64_t l = 0; l < v_.length; ++l) std::fill(lines + l * kColumns + n, lines + l * kColumns + rounded, 0.0f);
    for_columns(first, n, [&](int64_t i, int64_t at) {
      for (int64_t l = 0; l < v_.length; ++l) lines[l * kColumns + i] = from[at + l * v_.inner];
    });
  }

  // Calls body(i, place of its first number) for each of n columns.
  template <class Body>
  void for_columns(int64_t first, int64_t n, const Body& body) const {
    int64_t outer = first / v_.inner, inner = first % v_.inner;
    for (int64_t i = 0; i < n; ++i) {
      body(i, outer * v_.length * v_.inner + inner);
      if (++inner == v_.inner) inner = 0, ++outer;
    }
  }

  const AxisView v_;
  const float factor_;
  const bool logarithm_, backward_;
};

}  // namespace

bool columns_suit(const AxisView& view) { return view.inner >= kWide || view.length <= kShort; }

PlanPtr softmax_columns(const Signature& signature, const SoftmaxOptions& options) {
  return std::make_unique<ColumnSoftmax>(signature, options, false);
}

PlanPtr softmax_columns_backward(const Signature& signature, const SoftmaxOptions& options) {
  return std::make_unique<ColumnSoftmax>(signature, options, true);
}

}  // namespace mx::cpu
