// SPDX-License-Identifier: Apache-2.0
#include "common/plan.h"

namespace mx::vector {
namespace {

size_t total_bytes(const std::vector<Spec>& specs) {
  size_t total = 0;
  for (const Spec& spec : specs) total += spec.bytes;
  return total;
}

void check_types(const std::vector<Spec>& specs) {
  for (const Spec& spec : specs)
    if (!known(spec.dtype))
      throw Error(MX_ERROR_UNSUPPORTED, "[mx-operators-cpu] element type code " +
                                            std::to_string(spec.dtype) + " has no vector loops");
}

void check_one(const char* what, uint32_t i, const mx_tensor& tensor, const Spec& spec) {
  if (tensor.dtype == spec.dtype && tensor.bytes == spec.bytes && tensor.layout == 0) return;
  throw Error(MX_ERROR_SHAPE, std::string("[mx-operators-cpu] ") + what + " " + std::to_string(i) +
                                  ": the plan was made for type code " +
                                  std::to_string(spec.dtype) + " and " +
                                  std::to_string(spec.bytes) + " bytes, got type code " +
                                  std::to_string(tensor.dtype) + " and " +
                                  std::to_string(tensor.bytes) + " bytes");
}

}  // namespace

Plan::Plan(std::vector<Spec> inputs, std::vector<Spec> outputs, uint32_t n_scalars)
    : mx_plan{}, inputs_(std::move(inputs)), outputs_(std::move(outputs)), n_scalars_(n_scalars) {
  check_types(inputs_);
  check_types(outputs_);
  head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
  if (total_bytes(inputs_) + total_bytes(outputs_) > kParallelBytes)
    flags = MX_PLAN_PARALLEL | MX_PLAN_HEAVY;
  run = run_c;
  retain = retain_c;
  release = release_c;
}

void Plan::retain_c(mx_plan* self) {
  static_cast<Plan&>(*self).references_.fetch_add(1, std::memory_order_relaxed);
}

void Plan::release_c(mx_plan* self) {
  auto& plan = static_cast<Plan&>(*self);
  if (plan.references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &plan;
}

void Plan::check(const mx_kernel_context& context, const mx_tensor* inputs, uint32_t n_inputs,
                 const mx_tensor* outputs, uint32_t n_outputs) const {
  if (n_inputs != inputs_.size() || n_outputs != outputs_.size() || context.n_scalars < n_scalars_)
    throw Error(MX_ERROR_VALUE,
                "[mx-operators-cpu] the plan takes " + std::to_string(inputs_.size()) +
                    " inputs, " + std::to_string(n_scalars_) + " scalars and " +
                    std::to_string(outputs_.size()) + " outputs; got " + std::to_string(n_inputs) +
                    ", " + std::to_string(context.n_scalars) + " and " + std::to_string(n_outputs));
  for (uint32_t i = 0; i < n_inputs; ++i) check_one("input", i, inputs[i], inputs_[i]);
  for (uint32_t i = 0; i < n_outputs; ++i) check_one("output", i, outputs[i], outputs_[i]);
}

int32_t Plan::run_c(const mx_plan* self, const mx_kernel_context* context, const mx_tensor* inputs,
                    uint32_t n_inputs, const mx_tensor* outputs, const uint8_t* req,
                    uint32_t n_outputs, mx_error* error) {
  return guarded(error, [&] {
    auto* plan = static_cast<const Plan*>(self);
    plan->check(*context, inputs, n_inputs, outputs, n_outputs);
    plan->execute({*context, inputs, outputs, req});
  });
}

}  // namespace mx::vector
