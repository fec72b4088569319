// SPDX-License-Identifier: Apache-2.0
//
// Softmax along contiguous rows in float32: a row stays in the nearest cache over its passes.
#include "softmax/softmax_rows.hpp"

#include <algorithm>
#include <cmath>

#include "common/clones.hpp"
#include "softmax/row_loops.hpp"

namespace mx::cpu {

float largest(const float* x, int64_t n) { return best_clone<largest_of<float>>(x, n); }
double largest(const double* x, int64_t n) { return best_clone<largest_of<double>>(x, n); }

float powers(const float* x, float top, float factor, float* y, int64_t n) {
  return best_clone<powers_of<float, true>>(x, top, factor, y, n);
}
double powers(const double* x, double top, double factor, double* y, int64_t n) {
  return best_clone<powers_of<double, true>>(x, top, factor, y, n);
}
float power_sum(const float* x, float top, float factor, int64_t n) {
  return best_clone<powers_of<float, false>>(x, top, factor, nullptr, n);
}

void scale(float* y, float factor, int64_t n) { best_clone<scale_all<float>>(y, factor, n); }
void scale(double* y, double factor, int64_t n) { best_clone<scale_all<double>>(y, factor, n); }

namespace {

// Rows one after the other in one function, since short ones take no longer than a call.

template <bool Logarithm>
MX_INLINE void forward_rows(const float* x, float* y, int64_t rows, int64_t n, float factor) {
  for (; rows > 0; --rows, x += n, y += n) {
    // A negative temperature turns the order around: the largest exponent is that of the least x.
    const float top = factor >= 0 ? largest_of(x, n) : *std::min_element(x, x + n);
    const double sum = in_runs(n, [&](int64_t i, int64_t some) MX_INLINE_LAMBDA {
      return powers_of<float, !Logarithm>(x + i, top, factor, y + i, some);
    });
    if (Logarithm) {
      const auto shift = static_cast<float>(std::log(sum));
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) * factor - shift;
    } else {
      scale_all(y, static_cast<float>(1 / sum), n);
    }
  }
}

template <bool Logarithm>
MX_INLINE void backward_rows(const float* g, const float* y, float* d, int64_t rows, int64_t n, float factor) {
  for (; rows > 0; --rows, g += n, y += n, d += n) {
    const auto along = static_cast<float>(in_runs(n, [&](int64_t start, int64_t some) MX_INLINE_LAMBDA {
      const float *head = g + start, *out = y + start;
      return sum_of<float>(some, [=](int64_t i) MX_INLINE_LAMBDA { return Logarithm ? head[i] : head[i] * out[i]; });
    }));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      d[i] = (Logarithm ? g[i] - exp32(y[i]) * along : (g[i] - along) * y[i]) * factor;
  }
}

Cost row_cost(const Spec& spec) {
  return {20.0 * static_cast<double>(spec.size()), 2.0 * static_cast<double>(spec.bytes())};
}

class RowSoftmax final : public Plan {
 public:
  RowSoftmax(const Signature& s, int64_t length, bool logarithm, double temperature, bool backward)
      : Plan(s, row_cost(s.outputs[0])), length_(length), factor_(static_cast<float>(1 / temperature)),
        logarithm_(logarithm), backward_(backward) {
    require_float(s);
    const int64_t size = s.outputs[0].size();
    if (s.inputs.size() < (backward ? 2 : 1) || s.outputs.size() != 1 || length < 1 || size % length != 0 ||
        s.inputs[0].size() != size || (backward && s.inputs[1].size() != size))
      throw Unsupported{};
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    auto* result = call.target<float>(0);
    const auto *first = call.input<float>(0), *second = backward_ ? call.input<float>(1) : nullptr;
    parallel_shares(signature_.outputs[0].size() / length_, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * length_, rows = end - begin;
      if (backward_) {
        const auto& run = logarithm_ ? best_clone<backward_rows<true>> : best_clone<backward_rows<false>>;
        run(first + at, second + at, result + at, rows, length_, factor_);
      } else {
        const auto& run = logarithm_ ? best_clone<forward_rows<true>> : best_clone<forward_rows<false>>;
        run(first + at, result + at, rows, length_, factor_);
      }
    });
  }
  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

  const int64_t length_;
  const float factor_;
  const bool logarithm_, backward_;
};

}  // namespace

PlanPtr softmax_rows(const Signature& signature, int64_t length, bool logarithm, double temperature) {
  return std::make_unique<RowSoftmax>(signature, length, logarithm, temperature, false);
}

PlanPtr softmax_rows_backward(const Signature& signature, int64_t length, bool logarithm, double temperature) {
  return std::make_unique<RowSoftmax>(signature, length, logarithm, temperature, true);
}

}  // namespace mx::cpu
