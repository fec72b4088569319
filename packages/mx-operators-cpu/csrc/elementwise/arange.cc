// SPDX-License-Identifier: Apache-2.0
#include "elementwise/arange.hpp"

#include <algorithm>

#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kGrain = 32;  // pieces a thread takes at a time

class ProgressionPlan final : public Plan {
 public:
  ProgressionPlan(std::vector<Spec> outputs, const ProgressionOptions& options)
      : Plan({}, std::move(outputs)), o_(options) {}

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    const int64_t n = outputs_[0].size();
    parallel_for((n + kDelivered - 1) / kDelivered, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        alignas(64) double values[kDelivered];
        const int64_t first = c * kDelivered, some = std::min(kDelivered, n - first);
        number(first, some, values);
        if (o_.last && first + some == n) values[some - 1] = *o_.last;
        deliver(call, 0, outputs_[0], F64, values, first, some);
      }
    });
  }

 private:
  void number(int64_t first, int64_t n, double* values) const {
    int64_t index = first / o_.repeat, left = o_.repeat - first % o_.repeat;
    for (int64_t i = 0; i < n; ++i) {
      values[i] = o_.start + static_cast<double>(index) * o_.step;
      if (--left == 0) {
        ++index;
        left = o_.repeat;
      }
    }
  }

  const ProgressionOptions o_;
};

}  // namespace

PlanPtr make_progression_plan(std::vector<Spec> outputs, const ProgressionOptions& o) {
  if (outputs.size() != 1 || o.repeat < 1) throw Error(MX_ERROR_VALUE, "[progression] expected one output");
  return std::make_unique<ProgressionPlan>(std::move(outputs), o);
}

}  // namespace mx::cpu
