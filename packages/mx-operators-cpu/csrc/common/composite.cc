// SPDX-License-Identifier: Apache-2.0
#include "common/composite.hpp"

#include <algorithm>

#include "common/scratch.hpp"

namespace mx::cpu {
namespace {

class CompositePlan final : public Plan {
 public:
  CompositePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Spec> temporaries,
                std::vector<Part> parts, uint32_t n_scalars, const std::vector<uint32_t>& blank)
      : Plan(std::move(inputs), std::move(outputs), n_scalars), temporaries_(std::move(temporaries)) {
    require_whole(parts, blank);
    uint32_t all = 0;
    for (const Spec& spec : temporaries_) places_.push_back(add_scratch(spec.bytes()));
    size_t most = 0;  // what any part needs for itself
    for (const Part& part : parts) {
      all |= part.plan->flags;
      size_t own = arena_bytes({part.inputs.size() * sizeof(mx_tensor), part.outputs.size() * sizeof(mx_tensor),
                                part.scalars.size() * sizeof(double), part.plan->n_scratch * sizeof(void*)});
      for (uint32_t i = 0; i < part.plan->n_scratch; ++i) own += aligned(part.plan->scratch_bytes[i]);
      most = std::max(most, own);
    }
    set_flags(all);
    part_scratch_ = add_scratch(part_bytes_ = most);
    read_ = add_scratch(first_temporary() + temporaries_.size());
    needed_ = add_scratch(parts.size());
    for (const Part& part : parts) part.plan->retain(part.plan);
    parts_ = std::move(parts);
  }
  ~CompositePlan() override {
    for (const Part& part : parts_) part.plan->release(part.plan);
  }

 protected:
  void execute(const Call& call) const override {
    const bool* needed = needed_parts(call);
    for (size_t p = 0; p < parts_.size(); ++p)
      if (needed[p]) run_part(call, parts_[p]);
  }
  // Parts run one after the other and share the staging memory.
  size_t staging(const uint8_t* req) const override {
    size_t most = 0;
    for (const Part& part : parts_) {
      uint8_t requests[kMostOutputs];
      for (size_t i = 0; i < part.outputs.size(); ++i) requests[i] = request(req, part.outputs[i]);
      most = std::max(most, mx_plan_staging(part.plan, requests, static_cast<uint32_t>(part.outputs.size())));
    }
    return most;
  }

 private:
  static constexpr size_t kMostOutputs = 256;  // of a part

  size_t first_temporary() const { return inputs_.size() + outputs_.size(); }

  // One part may draw; it has the counters of the whole.
  void require_whole(const std::vector<Part>& parts, const std::vector<uint32_t>& blank) {
    const auto fail = [] { throw Error(MX_ERROR_VALUE, "[composite] a part names what is not there"); };
    std::vector<bool> made(first_temporary() + temporaries_.size(), false);
    std::fill_n(made.begin(), inputs_.size(), true);
    for (uint32_t tensor : blank) {
      if (tensor >= made.size() || tensor < first_temporary()) fail();
      made[tensor] = true;
    }
    for (const Part& part : parts) {
      if (part.outputs.size() > kMostOutputs) throw Error(MX_ERROR_UNSUPPORTED, "[composite] a part has many outputs");
      if (part.plan == nullptr || (part.plan->random_blocks > 0 && random_blocks > 0)) fail();
      random_blocks += part.plan->random_blocks;
      for (uint32_t tensor : part.inputs)
        if (tensor >= made.size() || !made[tensor] || (tensor >= inputs_.size() && tensor < first_temporary())) fail();
      for (uint32_t tensor : part.outputs) {
        if (tensor >= made.size() || tensor < inputs_.size()) fail();
        made[tensor] = true;
      }
      for (const PartScalar& scalar : part.scalars)
        if (scalar.scalar && *scalar.scalar >= signature_.n_scalars) fail();
    }
  }

  const bool* needed_parts(const Call& call) const {
    auto *read = call.scratch<bool>(read_), *needed = call.scratch<bool>(needed_);
    std::fill_n(read, first_temporary() + temporaries_.size(), false);
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

  uint8_t request(const uint8_t* req, uint32_t tensor) const {
    return tensor < first_temporary() ? req[tensor - inputs_.size()] : uint8_t{MX_REQ_WRITE};
  }

  mx_tensor tensor(const Call& call, uint32_t index) const {
    if (index < inputs_.size()) return call.inputs[index];
    if (index < first_temporary()) return call.outputs[index - inputs_.size()];
    const size_t i = index - first_temporary();
    const Spec& spec = temporaries_[i];
    mx_tensor made{};
    made.data = call.scratch(places_[i]);
    made.shape = spec.shape.data();
    made.ndim = static_cast<int32_t>(spec.shape.size());
    made.dtype = spec.dtype;
    made.bytes = spec.bytes();
    made.context = call.context.context;
    return made;
  }

  void run_part(const Call& call, const Part& part) const {
    Arena arena(call.scratch(part_scratch_), part_bytes_);
    const auto given = arena.take<mx_tensor>(part.inputs.size()), made = arena.take<mx_tensor>(part.outputs.size());
    const auto scalars = arena.take<double>(part.scalars.size());
    const auto own = arena.take<void*>(part.plan->n_scratch);
    uint8_t requests[kMostOutputs];
    for (size_t i = 0; i < part.inputs.size(); ++i) given[i] = tensor(call, part.inputs[i]);
    for (size_t i = 0; i < part.outputs.size(); ++i) {
      const uint32_t index = part.outputs[i];
      made[i] = tensor(call, index);
      requests[i] = request(call.req, index);
    }
    for (size_t i = 0; i < part.scalars.size(); ++i)
      scalars[i] = part.scalars[i].scalar ? call.scalar(*part.scalars[i].scalar) : part.scalars[i].number;
    for (uint32_t i = 0; i < part.plan->n_scratch; ++i)
      own[i] = arena.take<char>(part.plan->scratch_bytes[i]).data();
    mx_kernel_context context = call.context;
    context.scratch = own.data();
    context.scalars = scalars.data();
    context.n_scalars = static_cast<uint32_t>(part.scalars.size());
    mx_error error{};
    mx::check(part.plan->run(part.plan, &context, given.data(), static_cast<uint32_t>(part.inputs.size()),
                             made.data(), requests, static_cast<uint32_t>(part.outputs.size()), &error),
              error);
  }

  const std::vector<Spec> temporaries_;
  std::vector<Section> places_;  // of temporaries
  std::vector<Part> parts_;
  Section part_scratch_, read_, needed_;  // of one part; whether each tensor is read, each part needed
  size_t part_bytes_ = 0;
};

}  // namespace

PlanPtr make_composite_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Spec> temporaries,
                            std::vector<Part> parts, uint32_t n_scalars, const std::vector<uint32_t>& blank) {
  return std::make_unique<CompositePlan>(std::move(inputs), std::move(outputs), std::move(temporaries),
                                         std::move(parts), n_scalars, blank);
}

}  // namespace mx::cpu
