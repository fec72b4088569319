// SPDX-License-Identifier: Apache-2.0
//
// Softmax along contiguous rows in float32: a row stays in the nearest cache over its passes.
#include "softmax/softmax_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/clones.hpp"
#include "common/math32.hpp"
#include "common/math64.hpp"

namespace mx::cpu {
namespace {

MX_INLINE float power(float x) { return exp32(x); }
MX_INLINE double power(double x) { return exp64(x); }

template <class T>
MX_INLINE T largest_of(const T* x, int64_t n) {
  T top = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

template <class T>
MX_INLINE T powers_of(const T* x, T top, T factor, T* y, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    y[i] = power((x[i] - top) * factor);
    sum += y[i];
  }
  return sum;
}

template <class T>
MX_INLINE void scale_all(T* y, T factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

}  // namespace

float largest(const float* x, int64_t n) { return best_clone<largest_of<float>>(x, n); }
double largest(const double* x, int64_t n) { return best_clone<largest_of<double>>(x, n); }

float powers(const float* x, float top, float factor, float* y, int64_t n) {
  return best_clone<powers_of<float>>(x, top, factor, y, n);
}
double powers(const double* x, double top, double factor, double* y, int64_t n) {
  return best_clone<powers_of<double>>(x, top, factor, y, n);
}

void scale(float* y, float factor, int64_t n) { best_clone<scale_all<float>>(y, factor, n); }
void scale(double* y, double factor, int64_t n) { best_clone<scale_all<double>>(y, factor, n); }

MX_CLONES(float, power_sum, (const float* x, float top, float factor, int64_t n), (x, top, factor, n)) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += exp32((x[i] - top) * factor);
  return sum;
}

namespace {

// y = (x - top) * factor - shift
MX_CLONES(void, shifted, (const float* x, float top, float factor, float shift, float* y, int64_t n),
          (x, top, factor, shift, y, n)) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) * factor - shift;
}

MX_CLONES(float, product_sum, (const float* a, const float* b, int64_t n), (a, b, n)) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

MX_CLONES(float, plain_sum, (const float* a, int64_t n), (a, n)) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i];
  return sum;
}

MX_CLONES(void, softmax_gradient, (const float* g, const float* y, float along, float factor, float* d, int64_t n),
          (g, y, along, factor, d, n)) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) d[i] = (g[i] - along) * y[i] * factor;
}

MX_CLONES(void, log_softmax_gradient, (const float* g, const float* y, float total, float factor, float* d,
                                       int64_t n), (g, y, total, factor, d, n)) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) d[i] = (g[i] - exp32(y[i]) * total) * factor;
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
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * length_;
        backward_ ? back(first + at, second + at, result + at) : forward(first + at, result + at);
      }
    });
  }
  bool stages(size_t, const uint8_t* req) const override { return req[0] == MX_REQ_ADD; }

  void forward(const float* x, float* y) const {
    // A negative temperature turns the order around: the largest exponent is that of the least x.
    const float top = factor_ >= 0 ? largest(x, length_) : least(x);
    if (logarithm_) {
      const double sum = in_runs(length_, [&](int64_t i, int64_t n) { return power_sum(x + i, top, factor_, n); });
      shifted(x, top, factor_, static_cast<float>(std::log(sum)), y, length_);
    } else {
      const double sum = in_runs(length_, [&](int64_t i, int64_t n) { return powers(x + i, top, factor_, y + i, n); });
      scale(y, static_cast<float>(1 / sum), length_);
    }
  }

  float least(const float* x) const { return *std::min_element(x, x + length_); }

  void back(const float* g, const float* y, float* d) const {
    if (logarithm_) {
      const double total = in_runs(length_, [&](int64_t i, int64_t n) { return plain_sum(g + i, n); });
      log_softmax_gradient(g, y, static_cast<float>(total), factor_, d, length_);
    } else {
      const double along = in_runs(length_, [&](int64_t i, int64_t n) { return product_sum(g + i, y + i, n); });
      softmax_gradient(g, y, static_cast<float>(along), factor_, d, length_);
    }
  }

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
