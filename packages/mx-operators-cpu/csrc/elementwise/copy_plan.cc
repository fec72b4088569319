// SPDX-License-Identifier: Apache-2.0
#include "elementwise/copy_plan.hpp"

#include <algorithm>
#include <cstring>

#include "common/parallel.hpp"
#include "elementwise/expression_source.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

constexpr size_t kStreamBytes = 24 << 20;   // of both tensors, that no cache will hold
constexpr int64_t kPieceBytes = 128 << 10;  // what a thread takes at a time

class CopyPlan final : public Plan {
 public:
  CopyPlan(const std::vector<Spec>& inputs, const std::vector<Spec>& outputs, uint32_t n_scalars)
      : Plan(inputs, outputs, n_scalars) {}

 private:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    if (call.adds(0)) return add(outputs_[0], call.output(0), call.input(0));
    const LoopTable& table = loops();
    const char* const from = call.input(0);
    char* const to = call.output(0);
    const size_t bytes = inputs_[0].bytes();
    const bool streams = 2 * bytes > kStreamBytes && (to >= from + bytes || from >= to + bytes);
    parallel_for(static_cast<int64_t>(bytes), kPieceBytes, [&](int64_t begin, int64_t end) {
      const auto n = static_cast<size_t>(end - begin);
      streams ? table.stream(to + begin, from + begin, n) : static_cast<void>(std::memmove(to + begin, from + begin, n));
    });
  }
};

}  // namespace

PlanPtr make_copy_plan(const Source& source, const std::vector<Spec>& inputs, const std::vector<Spec>& outputs) {
  if (inputs.size() != 1 || outputs.size() != 1 || source.head.n_inputs != 1 || source.outputs.size() != 1)
    return nullptr;
  const bool same = inputs[0].dtype == outputs[0].dtype && inputs[0].shape == outputs[0].shape;
  if (!same || source.outputs[0] != 0) return nullptr;
  return std::make_unique<CopyPlan>(inputs, outputs, source.head.n_scalars);
}

}  // namespace mx::cpu
