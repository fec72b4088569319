// SPDX-License-Identifier: Apache-2.0
//
// The logarithm of softmax at one class per row, and the gradient of that from the probabilities.
#include <algorithm>
#include <cmath>

#include "common/clones.hpp"
#include "simd/loops.hpp"
#include "softmax/row_loops.hpp"
#include "softmax/softmax.hpp"
#include "softmax/softmax_rows.hpp"

namespace mx::cpu {
namespace {

// Per row its logarithm at the class to `out`, and all probabilities to `kept`, which may be x; either may be absent.
template <class T>
MX_INLINE void picked_rows(const T* x, const int64_t* classes, T* out, T* kept, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n) {
    const T top = largest_of(x, n), chosen = x[classes[r]];
    const double sum = in_runs(n, [&](int64_t i, int64_t some) MX_INLINE_LAMBDA {
      return kept == nullptr ? powers_of<T, false>(x + i, top, T(1), nullptr, some)
                             : powers_of<T, true>(x + i, top, T(1), kept + i, some);
    });
    if (out != nullptr) out[r] = (chosen - top) - static_cast<T>(std::log(sum));
    if (kept == nullptr) continue;
    scale_all(kept, static_cast<T>(1 / sum), n);
    kept += n;
  }
}

// head * (1 at the class - probability), which may overwrite the probabilities
template <class T>
MX_INLINE void gradient_rows(const T* g, const int64_t* classes, const T* kept, T* d, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, kept += n, d += n) {
    const T head = g[r], chosen = kept[classes[r]];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) d[i] = T(0) - kept[i] * head;
    d[classes[r]] = head - chosen * head;
  }
}

class PickedSoftmax final : public Plan {
 public:
  PickedSoftmax(const Signature& s, bool backward)
      : Plan(s, {20.0 * static_cast<double>(full(s, backward).size()),
                 2.0 * static_cast<double>(full(s, backward).bytes())}),
        backward_(backward), rows_(s.inputs[1].size()), label_type_(s.inputs[1].dtype) {
    const Spec& kept = backward ? s.inputs[2] : s.outputs[1];
    const Spec& picked = backward ? s.inputs[0] : s.outputs[0];
    const Spec& data = full(s, backward);
    length_ = data.shape.empty() ? 0 : data.shape.back();
    is_double_ = data.dtype == MX_FLOAT64;
    if (data.dtype != MX_FLOAT32 && !is_double_) throw Unsupported{};
    if (picked.dtype != data.dtype || kept.dtype != data.dtype) throw Unsupported{};
    // Unsigned labels of 64 bits are clipped otherwise; types beyond have no loops.
    if (label_type_ < 0 || label_type_ > MX_BFLOAT16 || label_type_ == MX_UINT64) throw Unsupported{};
    if (length_ < 1 || rows_ < 1 || data.size() % length_ != 0 || data.size() / length_ != rows_) throw Unsupported{};
    require_size(picked, rows_);
    require_size(kept, data.size());
    classes_ = add_scratch<int64_t>(rows_);
  }

 private:
  static const Spec& full(const Signature& s, bool backward) { return backward ? s.outputs[0] : s.inputs[0]; }

  void execute(const Call& call) const override { is_double_ ? run<double>(call) : run<float>(call); }
  bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }

  template <class T>
  void run(const Call& call) const {
    auto* first = call.wanted(0) ? call.target<T>(0) : nullptr;
    auto* second = !backward_ && call.wanted(1) ? call.target<T>(1) : nullptr;
    if (first == nullptr && second == nullptr) return;
    auto* classes = call.scratch<int64_t>(classes_);
    loops().load[label_type_][I64](classes, call.input(1), static_cast<size_t>(rows_));
    for (int64_t r = 0; r < rows_; ++r) classes[r] = std::clamp<int64_t>(classes[r], 0, length_ - 1);
    parallel_shares(rows_, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * length_, rows = end - begin;
      if (backward_) {
        best_clone<gradient_rows<T>>(call.input<T>(0) + begin, classes + begin, call.input<T>(2) + at, first + at, rows,
                                     length_);
      } else {
        best_clone<picked_rows<T>>(call.input<T>(0) + at, classes + begin, first == nullptr ? nullptr : first + begin,
                                   second == nullptr ? nullptr : second + at, rows, length_);
      }
    });
  }

  const bool backward_;
  const int64_t rows_;
  const int label_type_;
  int64_t length_;
  bool is_double_;
  Section classes_;
};

}  // namespace

PlanPtr picked_softmax(const Signature& signature) {
  return std::make_unique<PickedSoftmax>(counted(signature, 2, 2), false);
}

PlanPtr picked_softmax_backward(const Signature& signature) {
  return std::make_unique<PickedSoftmax>(counted(signature, 3, 1), true);
}

}  // namespace mx::cpu
