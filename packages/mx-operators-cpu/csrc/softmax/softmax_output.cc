// SPDX-License-Identifier: Apache-2.0
//
// The gradient of SoftmaxOutput: the probabilities less the labels, scaled.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "common/clones.hpp"
#include "common/float_types.hpp"
#include "softmax/softmax.hpp"

namespace mx::cpu {
namespace {

// grad = (y - spread) * scale
template <class T>
MX_INLINE void less(const T* y, T spread, T scale, T* grad, bool adds, int64_t n) {
  if (adds) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) grad[i] += (y[i] - spread) * scale;
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) grad[i] = (y[i] - spread) * scale;
  }
}

// The same where the label is not to be ignored, else 0.
template <class T>
MX_INLINE void less_unless(const T* y, T spread, T scale, const T* label, T ignore_label, bool use_ignore, T* grad,
                           bool adds, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T value = use_ignore && std::trunc(label[i]) == ignore_label ? T(0) : (y[i] - spread) * scale;
    grad[i] = adds ? grad[i] + value : value;
  }
}

template <class T>
MX_INLINE void difference(const T* y, const T* label, T scale, T* grad, bool adds, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T value = (y[i] - label[i]) * scale;
    grad[i] = adds ? grad[i] + value : value;
  }
}

template <class T>
class SoftmaxOutputBackward final : public Plan {
 public:
  SoftmaxOutputBackward(const Signature& s, const SoftmaxOutputOptions& o)
      : Plan(s, bandwidth_cost(s)), o_(o) {
    if constexpr (std::is_same_v<T, float>) require_float(s);
    else require_double(s);
    const int64_t size = o.rows * o.classes * o.inner;
    require_sizes(s.inputs, {o.label_is_distribution ? size : o.rows * o.inner, size});
    require_sizes(s.outputs, {size});
  }

 private:
  void execute(const Call& call) const override {
    if (call.context.n_scalars != 2) {
      throw Error(MX_ERROR_VALUE, "[SoftmaxOutput] expected the run-time scalars grad_scale and ignore_label");
    }
    if (!call.wanted(0)) return;
    const double grad_scale = call.context.scalars[0];
    const T ignore_label = std::trunc(static_cast<T>(call.context.scalars[1]));
    const T *label = call.input<T>(0), *output = call.input<T>(1);
    auto* grad = call.output<T>(0);
    const T scale = static_cast<T>(grad_scale / divisor(label, ignore_label));
    parallel_shares(o_.rows, [&](int64_t begin, int64_t end) {
      const int64_t size = o_.classes * o_.inner;
      for (int64_t r = begin; r < end; ++r) {
        if (o_.label_is_distribution) {
          best_clone<difference<T>>(output + r * size, label + r * size, scale, grad + r * size, call.adds(0),
                                    size);
        } else {
          row({scale, ignore_label, o_.use_ignore, call.adds(0)}, label + r * o_.inner, output + r * size,
              grad + r * size);
        }
      }
    });
  }

  struct Scaling {
    T scale, ignore_label;
    bool use_ignore, adds;
  };

  // Label smoothing (Szegedy et al., arXiv:1512.00567) spreads smooth_alpha over the other classes.
  void row(const Scaling& s, const T* label, const T* y, T* grad) const {
    const auto alpha = static_cast<T>(o_.smooth_alpha);
    const T spread = alpha / static_cast<T>(std::max<int64_t>(o_.classes - 1, 1));
    if (o_.inner == 1) {
      if (ignored(*label, s.ignore_label)) {
        if (!s.adds) std::fill_n(grad, o_.classes, T(0));
        return;
      }
      best_clone<less<T>>(y, spread, s.scale, grad, s.adds, o_.classes);
    } else {
      for (int64_t k = 0; k < o_.classes; ++k)
        best_clone<less_unless<T>>(y + k * o_.inner, spread, s.scale, label, s.ignore_label, s.use_ignore,
                                    grad + k * o_.inner, s.adds, o_.inner);
    }
    for (int64_t i = 0; i < o_.inner; ++i) {
      if (ignored(label[i], s.ignore_label)) continue;
      const T k = std::trunc(label[i]);
      if (!(k >= 0 && k < static_cast<T>(o_.classes))) continue;
      const int64_t at = static_cast<int64_t>(k) * o_.inner + i;
      grad[at] = s.adds ? grad[at] + s.scale * (alpha - 1 + spread) : s.scale * (y[at] - 1 + alpha);
    }
  }

  bool ignored(T label, T ignore_label) const { return o_.use_ignore && std::trunc(label) == ignore_label; }

  double divisor(const T* label, T ignore_label) const {
    if (o_.label_is_distribution) return 1;
    if (o_.normalization == Normalization::valid) {
      int64_t valid = 0;  // what ignore_label leaves, with or without use_ignore
      for (int64_t i = 0; i < o_.rows * o_.inner; ++i) valid += std::trunc(label[i]) != ignore_label;
      return static_cast<double>(std::max<int64_t>(valid, 1));
    }
    return static_cast<double>(o_.normalization == Normalization::batch ? o_.rows * o_.inner : o_.inner);
  }

  const SoftmaxOutputOptions o_;
};

}  // namespace

PlanPtr softmax_output_backward(const Signature& signature, const SoftmaxOutputOptions& options) {
  if (all_double(counted(signature, 2, 1))) return std::make_unique<SoftmaxOutputBackward<double>>(signature, options);
  return std::make_unique<SoftmaxOutputBackward<float>>(signature, options);
}

}  // namespace mx::cpu
