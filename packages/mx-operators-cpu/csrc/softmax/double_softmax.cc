// SPDX-License-Identifier: Apache-2.0
//
// Softmax in float64 along any axis: rows where the axis is last, else neighbouring columns side by side.
#include "softmax/double_softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/clones.hpp"
#include "common/float_types.hpp"
#include "common/math64.hpp"
#include "softmax/softmax_rows.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kColumns = 64;  // side by side
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One softmax: `length` numbers.  Exponents are (x - top) / temperature, where top is the x with the largest one: its
// own is then 0 however large it is, with and without fused multiplications.

MX_CLONES(double, row_least, (const double* x, int64_t length), (x, length)) {
  double least = kInfinity;
#pragma omp simd reduction(min : least)
  for (int64_t i = 0; i < length; ++i) least = x[i] < least ? x[i] : least;
  return least;
}

MX_CLONES(double, row_powers, (const double* x, double* y, int64_t length, double temperature, double top),
          (x, y, length, temperature, top)) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < length; ++i) {
    y[i] = exp64((x[i] - top) / temperature);
    sum += y[i];
  }
  return sum;
}

MX_CLONES(double, row_power_sum, (const double* x, int64_t length, double temperature, double top),
          (x, length, temperature, top)) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < length; ++i) sum += exp64((x[i] - top) / temperature);
  return sum;
}

MX_CLONES(void, row_logarithms, (const double* x, double* y, int64_t length, double temperature, double top,
                                 double sum), (x, y, length, temperature, top, sum)) {
  for (int64_t i = 0; i < length; ++i) y[i] = (x[i] - top) / temperature - sum;
}

MX_CLONES(double, row_sum, (const double* g, int64_t length), (g, length)) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < length; ++i) sum += g[i];
  return sum;
}

MX_CLONES(double, row_product_sum, (const double* g, const double* y, int64_t length), (g, y, length)) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < length; ++i) sum += g[i] * y[i];
  return sum;
}

// d = (g - along * weight) / temperature: of softmax y weighs both, of its logarithm exp(y) the sum alone.
MX_CLONES(void, row_gradient, (const double* g, const double* y, double* d, int64_t length, double along,
                               double temperature, bool logarithm), (g, y, d, length, along, temperature, logarithm)) {
  if (logarithm) for (int64_t i = 0; i < length; ++i) d[i] = (g[i] - exp64(y[i]) * along) / temperature;
  else for (int64_t i = 0; i < length; ++i) d[i] = (g[i] - along) * y[i] / temperature;
}

// n softmaxes side by side, their numbers `step` apart.

MX_CLONES(void, columns, (const double* x, double* y, int64_t length, int64_t step, int64_t n, double temperature,
                          bool logarithm), (x, y, length, step, n, temperature, logarithm)) {
  double top[kColumns], sum[kColumns];
  std::copy_n(x, n, top);
  std::fill_n(sum, n, 0.0);
  for (int64_t l = 1; l < length; ++l) {
    const double* line = x + l * step;
    if (temperature < 0) for (int64_t i = 0; i < n; ++i) top[i] = line[i] < top[i] ? line[i] : top[i];
    else for (int64_t i = 0; i < n; ++i) top[i] = line[i] > top[i] ? line[i] : top[i];
  }
  if (logarithm) {  // y may be x, so powers are not written
    for (int64_t l = 0; l < length; ++l)
      for (int64_t i = 0; i < n; ++i) sum[i] += exp64((x[l * step + i] - top[i]) / temperature);
    for (int64_t i = 0; i < n; ++i) sum[i] = std::log(sum[i]);
    for (int64_t l = 0; l < length; ++l)
      for (int64_t i = 0; i < n; ++i) y[l * step + i] = (x[l * step + i] - top[i]) / temperature - sum[i];
    return;
  }
  for (int64_t l = 0; l < length; ++l)
    for (int64_t i = 0; i < n; ++i) {
      const double power = exp64((x[l * step + i] - top[i]) / temperature);
      y[l * step + i] = power;
      sum[i] += power;
    }
  for (int64_t i = 0; i < n; ++i) sum[i] = 1 / sum[i];
  for (int64_t l = 0; l < length; ++l)
    for (int64_t i = 0; i < n; ++i) y[l * step + i] *= sum[i];
}

MX_CLONES(void, column_gradients, (const double* g, const double* y, double* d, int64_t length, int64_t step,
                                   int64_t n, double temperature, bool logarithm),
          (g, y, d, length, step, n, temperature, logarithm)) {
  double along[kColumns];
  std::fill_n(along, n, 0.0);
  for (int64_t l = 0; l < length; ++l) {
    const double *head = g + l * step, *out = y + l * step;
    if (logarithm) for (int64_t i = 0; i < n; ++i) along[i] += head[i];
    else for (int64_t i = 0; i < n; ++i) along[i] += head[i] * out[i];
  }
  for (int64_t l = 0; l < length; ++l) {
    const double *head = g + l * step, *out = y + l * step;
    double* to = d + l * step;
    if (logarithm) for (int64_t i = 0; i < n; ++i) to[i] = (head[i] - exp64(out[i]) * along[i]) / temperature;
    else for (int64_t i = 0; i < n; ++i) to[i] = (head[i] - along[i]) * out[i] / temperature;
  }
}

class DoubleSoftmax final : public Plan {
 public:
  DoubleSoftmax(const Signature& s, const SoftmaxOptions& o, bool backward)
      : Plan(s, {40.0 * static_cast<double>(s.outputs[0].size()), 2.0 * static_cast<double>(s.outputs[0].bytes())}),
        v_(o.view, o.axis), temperature_(o.temperature), logarithm_(o.logarithm), backward_(backward) {
    require_double(s);
    const int64_t size = s.outputs[0].size();
    if (product(o.view) != size || s.inputs.size() < (backward ? 2 : 1) || s.inputs[0].size() != size ||
        (backward && s.inputs[1].size() != size))
      throw Unsupported{};
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0) || v_.length == 0) return;
    const double *first = call.input<double>(0), *second = backward_ ? call.input<double>(1) : nullptr;
    double* to = call.target<double>(0);
    const int64_t blocks = (v_.inner + kColumns - 1) / kColumns, step = v_.length * v_.inner;
    parallel_shares(v_.outer * blocks, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t column = b % blocks * kColumns, at = b / blocks * step + column;
        const int64_t n = std::min(kColumns, v_.inner - column);
        const double* x = first + at;
        double* y = to + at;
        if (v_.inner == 1) backward_ ? back(x, second + at, y) : forward(x, y);
        else if (backward_) column_gradients(x, second + at, y, v_.length, v_.inner, n, temperature_, logarithm_);
        else columns(x, y, v_.length, v_.inner, n, temperature_, logarithm_);
      }
    });
  }
  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

  void forward(const double* x, double* y) const {
    const double top = temperature_ < 0 ? row_least(x, v_.length) : largest(x, v_.length);
    if (logarithm_) {
      row_logarithms(x, y, v_.length, temperature_, top, std::log(row_power_sum(x, v_.length, temperature_, top)));
    } else {
      const double sum = row_powers(x, y, v_.length, temperature_, top);
      scale(y, 1 / sum, v_.length);
    }
  }

  void back(const double* g, const double* y, double* d) const {
    const double along = logarithm_ ? row_sum(g, v_.length) : row_product_sum(g, y, v_.length);
    row_gradient(g, y, d, v_.length, along, temperature_, logarithm_);
  }

  const AxisView v_;
  const double temperature_;
  const bool logarithm_, backward_;
};

}  // namespace

PlanPtr double_softmax(const Signature& s, const SoftmaxOptions& options) {
  return std::make_unique<DoubleSoftmax>(s, options, false);
}

PlanPtr double_softmax_backward(const Signature& s, const SoftmaxOptions& options) {
  return std::make_unique<DoubleSoftmax>(s, options, true);
}

}  // namespace mx::cpu
