// SPDX-License-Identifier: Apache-2.0
#include "reduce/all_finite.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "common/upcast.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kGrain = 64 << 10;  // elements a thread looks at before it asks the others

// A number is not finite if all bits of its exponent are set.
template <class Bits>
MX_INLINE bool finite_bits(const void* data, int64_t n, Bits exponent) {
  const char* from = static_cast<const char*>(data);
  Bits found = 0;
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    found |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return found == 0;
}


bool finite(int dtype, const char* data, int64_t n) {
  switch (dtype) {
    case MX_FLOAT16:
      return best_clone<finite_bits<uint16_t>>(data, n, 0x7c00);
    case MX_BFLOAT16:
      return best_clone<finite_bits<uint16_t>>(data, n, 0x7f80);
    case MX_FLOAT32:
      return best_clone<finite_bits<uint32_t>>(data, n, 0x7f800000);
    case MX_FLOAT64:
      return best_clone<finite_bits<uint64_t>>(data, n, 0x7ff0000000000000);
    default:
      return true;
  }
}

class AllFinitePlan final : public Plan {
 public:
  AllFinitePlan(std::vector<Spec> inputs, std::vector<Spec> outputs) : Plan(std::move(inputs), std::move(outputs)) {}

 protected:
  void execute(const Call& call) const override {
    if (!call.wanted(0)) return;
    std::atomic<bool> fine{true};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int dtype = inputs_[i].dtype;
      const auto item = static_cast<int64_t>(item_size(dtype));
      parallel_for(inputs_[i].size(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t first = begin; first < end && fine.load(std::memory_order_relaxed); first += kGrain)
          if (!finite(dtype, call.input(i) + first * item, std::min(kGrain, end - first)))
            fine.store(false, std::memory_order_relaxed);
      });
    }
    const float answer = fine ? 1.0f : 0.0f;
    deliver(call, 0, outputs_[0], F32, &answer, 0, 1);
  }
};

class ResetPlan final : public Plan {
 public:
  explicit ResetPlan(std::vector<Spec> inputs) : Plan(std::move(inputs), {}) {}

 protected:
  void execute(const Call& call) const override {
    for (size_t i = 0; i < inputs_.size(); ++i)
      parallel_for(static_cast<int64_t>(inputs_[i].bytes()), int64_t{1} << 20,
               [&](int64_t begin, int64_t end) {
                 std::memset(call.state(i) + begin, 0, static_cast<size_t>(end - begin));
               });
  }
};

}  // namespace

PlanPtr make_all_finite_plan(std::vector<Spec> inputs, std::vector<Spec> outputs) {
  if (inputs.empty() || outputs.size() != 1 || outputs[0].size() != 1)
    throw Error(MX_ERROR_SHAPE, "[all_finite] expected arrays and one number");
  return std::make_unique<AllFinitePlan>(std::move(inputs), std::move(outputs));
}

PlanPtr make_reset_plan(std::vector<Spec> inputs) { return std::make_unique<ResetPlan>(std::move(inputs)); }

}  // namespace mx::cpu
