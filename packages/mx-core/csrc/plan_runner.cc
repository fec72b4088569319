// SPDX-License-Identifier: Apache-2.0
#include "plan_runner.hpp"

#include <algorithm>

#include "kernel_table.hpp"
#include "mx_core/failure.hpp"
#include "tensor_size.hpp"

namespace mx::core {
namespace {

int32_t alloc_output(const mx_kernel_context* self, uint32_t i, int32_t ndim, const int64_t* shape,
                     mx_tensor* output, mx_error* error) {
  return guarded(error, [&] {
    const auto& dynamic = *static_cast<const DynamicOutputs*>(self->host);
    if (i >= dynamic.size() || dynamic[i] == nullptr) {
      throw Error(MX_ERROR_VALUE, "output " + std::to_string(i) + " has a shape already");
    }
    if (ndim < 0 || ndim > MX_MAX_NDIM) {
      throw Error(MX_ERROR_SHAPE, "output " + std::to_string(i) + ": " + std::to_string(ndim) + " axes");
    }
    DynamicOutput& made = *dynamic[i];
    std::vector<int64_t> wanted(shape, shape + ndim);
    if (made.memory == nullptr) {
      made.bytes = tensor_bytes("alloc_output", made.dtype, wanted);
      made.memory = std::make_unique<GuardedMemory>(made.bytes);
      made.shape = std::move(wanted);
    } else if (made.shape != wanted) {
      throw Error(MX_ERROR_SHAPE, "output " + std::to_string(i) + " was asked for before, with another shape");
    }
    *output = {made.memory->data(), made.shape.data(), made.bytes, self->context, made.dtype, ndim, 0};
  });
}

// The sections of a plan's scratch memory `i`, which is one where the plan does not say.
std::vector<Extent> sections_of(const mx_plan& plan, uint32_t i) {
  std::vector<Extent> found;
  const uint32_t n = MX_HAS(plan.head.size, mx_plan, n_sections) ? plan.n_sections : 0;
  if (n != 0 && plan.sections == nullptr) throw Error(MX_ERROR_ABI, std::to_string(n) + " sections, and no list of them");
  for (uint32_t k = 0; k < n; ++k) {
    const mx_scratch_section& section = plan.sections[k];
    if (section.scratch >= plan.n_scratch) {
      throw Error(MX_ERROR_ABI, "section " + std::to_string(k) + " is of scratch memory " +
                                    std::to_string(section.scratch) + " of " + std::to_string(plan.n_scratch));
    }
    if (section.scratch == i) found.push_back({section.offset, section.bytes});
  }
  if (found.empty()) found.push_back({0, plan.scratch_bytes[i]});
  return found;
}

}  // namespace

PlanRunner::PlanRunner(const mx_plan& plan, std::vector<uint8_t> req, const RunOptions& options)
    : plan_(plan), req_(std::move(req)), options_(options) {
  check_plan(plan);
  for (uint32_t i = 0; i < plan.n_scratch; ++i) {
    scratch_.push_back(std::make_unique<GuardedMemory>(plan.scratch_bytes[i], sections_of(plan, i)));
    places_.push_back(scratch_.back()->data());
  }
  context_.size = sizeof context_;
  context_.is_train = options_.is_train ? 1 : 0;
  context_.context = {MX_CPU, 0};
  context_.scratch = places_.data();
  context_.scalars = options_.scalars.data();
  context_.n_scalars = static_cast<uint32_t>(options_.scalars.size());
  context_.threads = std::max(1u, options_.threads);
  context_.random_key = options_.random_key;
  context_.random_offset = options_.random_offset;
  context_.alloc_output = alloc_output;
  if (const size_t bytes = mx_plan_staging(&plan, req_.data(), static_cast<uint32_t>(req_.size()))) {
    staging_ = std::make_unique<GuardedMemory>(bytes);
    context_.staging = staging_->data();
  }
}

void PlanRunner::run(const Tensors& tensors, const DynamicOutputs& dynamic) {
  context_.host = const_cast<DynamicOutputs*>(&dynamic);
  mx_error error{};
  check(plan_.run(&plan_, &context_, tensors.inputs.data(), static_cast<uint32_t>(tensors.inputs.size()),
                  tensors.outputs.data(), req_.data(), static_cast<uint32_t>(tensors.outputs.size()), &error),
        error);
}

void PlanRunner::fill() {
  for (const auto& memory : scratch_) memory->fill();
  if (staging_ != nullptr) staging_->fill();
}

std::string PlanRunner::damage(const DynamicOutputs& dynamic) const {
  size_t before = 0;  // sections of the scratch memories so far
  for (const auto& memory : scratch_) {
    const GuardedMemory::Damage found = memory->damage();
    if (!found.text.empty())
      return "section " + std::to_string(before + found.section) + " of the scratch memory: " + found.text;
    before += memory->sections().size();
  }
  if (staging_ != nullptr) {
    const GuardedMemory::Damage found = staging_->damage();
    if (!found.text.empty()) return "the staging memory: " + found.text;
  }
  for (size_t i = 0; i < dynamic.size(); ++i) {
    if (dynamic[i] == nullptr || dynamic[i]->memory == nullptr) continue;
    const GuardedMemory::Damage found = dynamic[i]->memory->damage();
    if (!found.text.empty()) return "output " + std::to_string(i) + ": " + found.text;
  }
  return "";
}

std::string run_plan(const mx_plan& plan, const Tensors& tensors, const std::vector<uint8_t>& req,
                     const DynamicOutputs& dynamic, const RunOptions& options) {
  PlanRunner runner(plan, req, options);
  runner.run(tensors, dynamic);
  return runner.damage(dynamic);
}

}  // namespace mx::core
