// SPDX-License-Identifier: Apache-2.0
#include "common/composite.h"

#include <algorithm>

#include "common/scratch.h"

namespace mx::vector {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class CompositePlan final : public Plan {
 public:
  CompositePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Spec> temporaries,
                std::vector<Part> parts, uint32_t n_scalars)
      : Plan(std::move(inputs), std::move(outputs), n_scalars), temporaries_(std::move(temporaries)) {
    check(parts);
    flags = 0;
    for (const Spec& spec : temporaries_) {
      places_.push_back(bytes_);
      bytes_ += aligned(spec.bytes);
    }
    size_t most = 0;  // what any part needs for itself
    for (const Part& part : parts) {
      flags |= part.plan->flags;
      size_t own = 0;
      for (uint32_t i = 0; i < part.plan->n_scratch; ++i) own += aligned(part.plan->scratch_bytes[i]);
      most = std::max(most, own);
    }
    part_scratch_ = bytes_;
    bytes_ += most;
    n_scratch = bytes_ > 0 ? 1 : 0;
    scratch_bytes = &bytes_;
    for (const Part& part : parts) part.plan->retain(part.plan);
    parts_ = std::move(parts);
  }
  ~CompositePlan() override {
    for (const Part& part : parts_) part.plan->release(part.plan);
  }

 protected:
  void execute(const Call& call) const override {
    const std::vector<bool> needed = needed_parts(call);
    auto* scratch = n_scratch > 0 ? static_cast<char*>(call.context.scratch[0]) : nullptr;
    for (size_t p = 0; p < parts_.size(); ++p)
      if (needed[p]) run_part(call, parts_[p], scratch);
  }

 private:
  size_t first_temporary() const { return inputs_.size() + outputs_.size(); }

  // One part may draw; it has the counters of the whole.
  void check(const std::vector<Part>& parts) {
    const auto fail = [] { throw Error(MX_ERROR_VALUE, "[composite] a part names what is not there"); };
    std::vector<bool> made(first_temporary() + temporaries_.size(), false);
    std::fill_n(made.begin(), inputs_.size(), true);
    for (const Part& part : parts) {
      if (part.plan == nullptr || (part.plan->random_blocks > 0 && random_blocks > 0)) fail();
      random_blocks += part.plan->random_blocks;
      for (uint32_t tensor : part.inputs)
        if (tensor >= made.size() || !made[tensor] || (tensor >= inputs_.size() && tensor < first_temporary())) fail();
      for (uint32_t tensor : part.outputs) {
        if (tensor >= made.size() || tensor < inputs_.size()) fail();
        made[tensor] = true;
      }
      for (const PartScalar& scalar : part.scalars)
        if (scalar.scalar && *scalar.scalar >= n_scalars_) fail();
    }
  }

  std::vector<bool> needed_parts(const Call& call) const {
    std::vector<bool> read(first_temporary() + temporaries_.size(), false), needed(parts_.size(), false);
    for (size_t i = 0; i < outputs_.size(); ++i) read[inputs_.size() + i] = call.wanted(i);
    for (size_t p = parts_.size(); p-- > 0;) {
      const Part& part = parts_[p];
      needed[p] = part.mutates || std::any_of(part.outputs.begin(), part.outputs.end(),
                                              [&](uint32_t tensor) { return read[tensor]; });
      if (needed[p])
        for (uint32_t tensor : part.inputs) read[tensor] = true;
    }
    return needed;
  }

  mx_tensor tensor(const Call& call, uint32_t index, char* scratch) const {
    if (index < inputs_.size()) return call.inputs[index];
    if (index < first_temporary()) return call.outputs[index - inputs_.size()];
    const size_t i = index - first_temporary();
    const Spec& spec = temporaries_[i];
    mx_tensor made{};
    made.data = scratch + places_[i];
    made.shape = spec.shape.data();
    made.ndim = static_cast<int32_t>(spec.shape.size());
    made.dtype = spec.dtype;
    made.bytes = spec.bytes;
    made.context = call.context.context;
    return made;
  }

  void run_part(const Call& call, const Part& part, char* scratch) const {
    Short<mx_tensor, 16> given(part.inputs.size()), made(part.outputs.size());
    Short<uint8_t, 16> requests(part.outputs.size());
    Short<double, 16> scalars(part.scalars.size());
    Short<void*, 16> own(part.plan->n_scratch);
    for (size_t i = 0; i < part.inputs.size(); ++i) given[i] = tensor(call, part.inputs[i], scratch);
    for (size_t i = 0; i < part.outputs.size(); ++i) {
      const uint32_t index = part.outputs[i];
      made[i] = tensor(call, index, scratch);
      requests[i] = index < first_temporary() ? call.req[index - inputs_.size()] : uint8_t{MX_REQ_WRITE};
    }
    for (size_t i = 0; i < part.scalars.size(); ++i)
      scalars[i] = part.scalars[i].scalar ? call.scalar(*part.scalars[i].scalar) : part.scalars[i].number;
    char* next = scratch + part_scratch_;
    for (uint32_t i = 0; i < part.plan->n_scratch; ++i) {
      own[i] = next;
      next += aligned(part.plan->scratch_bytes[i]);
    }
    mx_kernel_context context = call.context;
    context.scratch = &own[0];
    context.scalars = &scalars[0];
    context.n_scalars = static_cast<uint32_t>(part.scalars.size());
    mx_error error{};
    mx::check(part.plan->run(part.plan, &context, &given[0], static_cast<uint32_t>(part.inputs.size()), &made[0],
                             &requests[0], static_cast<uint32_t>(part.outputs.size()), &error),
              error);
  }

  const std::vector<Spec> temporaries_;
  std::vector<size_t> places_;  // of temporaries in the scratch memory
  std::vector<Part> parts_;
  size_t bytes_ = 0, part_scratch_ = 0;
};

}  // namespace

PlanPtr make_composite_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Spec> temporaries,
                            std::vector<Part> parts, uint32_t n_scalars) {
  return std::make_unique<CompositePlan>(std::move(inputs), std::move(outputs), std::move(temporaries),
                                         std::move(parts), n_scalars);
}

}  // namespace mx::vector
