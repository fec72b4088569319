// SPDX-License-Identifier: Apache-2.0
//
// Cross entropy after softmax, by row: no probabilities of a whole batch are ever stored.
#include <algorithm>
#include <cmath>
#include <string>

#include "softmax/softmax.hpp"
#include "softmax/softmax_rows.hpp"

namespace mx::cpu {
namespace {

constexpr double kLeast = 1e-8;  // probabilities below count as this much

class CrossEntropy : public Plan {
 protected:
  CrossEntropy(const Signature& s, const Spec& data, const Spec& label)
      : Plan(s, {20.0 * static_cast<double>(data.size()), 2.0 * static_cast<double>(data.bytes())}) {
    require_float(s);
    if (data.shape.size() != 2 || label.size() != data.shape[0]) throw Unsupported{};
    rows_ = data.shape[0];
    classes_ = data.shape[1];
  }

  // The class of a row; -1: none.
  int64_t class_of(float label) const {
    const float whole = std::trunc(label);
    return whole >= 0 && whole < static_cast<float>(classes_) ? static_cast<int64_t>(whole) : -1;
  }

  int64_t rows_, classes_;
};

class CrossEntropyForward final : public CrossEntropy {
 public:
  explicit CrossEntropyForward(const Signature& s) : CrossEntropy(s, s.inputs[0], s.inputs[1]) {
    require_sizes(s.outputs, {1});
    add_scratch(static_cast<size_t>(rows_) * sizeof(double));
  }

 private:
  void execute(const Call& call) const override {
    const float *data = call.input<float>(0), *label = call.input<float>(1);
    for (int64_t r = 0; r < rows_; ++r) {
      if (class_of(label[r]) >= 0) continue;
      const std::string index = std::to_string(std::trunc(label[r]));
      throw Error(MX_ERROR_INDEX, "[softmax_cross_entropy] index " + index.substr(0, index.find('.')) +
                                      " is out of bounds for extent " + std::to_string(classes_));
    }
    if (!call.wanted(0)) return;
    auto* losses = static_cast<double*>(call.context.scratch[0]);
    parallel_shares(rows_, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* x = data + r * classes_;
        const float top = largest(x, classes_);
        const double sum = in_runs(classes_, [&](int64_t i, int64_t n) { return power_sum(x + i, top, 1, n); });
        losses[r] = -std::log(std::max(std::exp(static_cast<double>(x[class_of(label[r])] - top)) / sum, kLeast));
      }
    });
    double total = 0;
    for (int64_t r = 0; r < rows_; ++r) total += losses[r];
    auto* out = call.output<float>(0);
    *out = static_cast<float>(total) + (call.adds(0) ? *out : 0.0f);
  }
};

class CrossEntropyBackward final : public CrossEntropy {
 public:
  explicit CrossEntropyBackward(const Signature& s) : CrossEntropy(s, s.inputs[1], s.inputs[2]) {
    require_size(s.inputs[0], 1);
    require_sizes(s.outputs, {rows_ * classes_});
    add_scratch(static_cast<size_t>(threads()) * static_cast<size_t>(classes_) * sizeof(float));
  }

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const float head = *call.input<float>(0), *data = call.input<float>(1), *label = call.input<float>(2);
    auto *grad = call.output<float>(0), *scratch = static_cast<float*>(call.context.scratch[0]);
    parallel_shares(rows_, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r) {
        const float* x = data + r * classes_;
        float *out = grad + r * classes_, *y = call.adds(0) ? scratch + thread * classes_ : out;
        const float top = largest(x, classes_);
        const double sum = in_runs(classes_, [&](int64_t i, int64_t n) { return powers(x + i, top, 1, y + i, n); });
        scale(y, static_cast<float>(head / sum), classes_);
        if (const int64_t k = class_of(label[r]); k >= 0) y[k] -= head;
        if (call.adds(0))
          for (int64_t i = 0; i < classes_; ++i) out[i] += y[i];
      }
    });
  }
};

}  // namespace

PlanPtr cross_entropy(const Signature& signature) {
  return std::make_unique<CrossEntropyForward>(counted(signature, 2, 1));
}

PlanPtr cross_entropy_backward(const Signature& signature) {
  return std::make_unique<CrossEntropyBackward>(counted(signature, 3, 1));
}

}  // namespace mx::cpu
