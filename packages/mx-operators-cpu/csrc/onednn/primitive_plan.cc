// SPDX-License-Identifier: Apache-2.0
#include "onednn/primitive_plan.h"

#include <string>

namespace mx::onednn {

Plan::Plan(Signature signature, const Cost& cost)
    : mx_plan{}, signature_(std::move(signature)),
      threads_(cost.parallel() ? omp_get_max_threads() : 1) {
  head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
  flags = (threads_ > 1 ? MX_PLAN_PARALLEL : 0u) | (cost.heavy() ? MX_PLAN_HEAVY : 0u);
  scratch_bytes = &scratch_size_;
  run = &Plan::run_c;
  retain = [](mx_plan* self) {
    static_cast<Plan&>(*self).references_.fetch_add(1, std::memory_order_relaxed);
  };
  release = [](mx_plan* self) {
    auto& plan = static_cast<Plan&>(*self);
    if (plan.references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &plan;
  };
}

void Plan::set_scratch(size_t bytes) {
  scratch_size_ = bytes;
  n_scratch = bytes > 0 ? 1 : 0;
}

void Plan::check(const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
                 uint32_t n_outputs) const {
  auto compare = [](const char* what, const std::vector<Spec>& specs, const mx_tensor* tensors,
                    uint32_t n) {
    if (n != specs.size()) {
      throw Error(MX_ERROR_VALUE, std::string("plan expects ") + std::to_string(specs.size()) + " " +
                                      what + "s, got " + std::to_string(n));
    }
    for (uint32_t i = 0; i < n; ++i) {
      if (tensors[i].bytes == specs[i].bytes()) continue;
      throw Error(MX_ERROR_SHAPE, std::string(what) + " " + std::to_string(i) + ": plan expects " +
                                      std::to_string(specs[i].bytes()) + " bytes, got " +
                                      std::to_string(tensors[i].bytes));
    }
  };
  compare("input", signature_.inputs, inputs, n_inputs);
  compare("output", signature_.outputs, outputs, n_outputs);
}

int32_t Plan::run_c(const mx_plan* self, const mx_kernel_context* context, const mx_tensor* inputs,
                    uint32_t n_inputs, const mx_tensor* outputs, const uint8_t* req,
                    uint32_t n_outputs, mx_error* error) {
  const auto& plan = static_cast<const Plan&>(*self);
  return guarded(error, [&] {
    plan.check(inputs, n_inputs, outputs, n_outputs);
    const Call call{*context, inputs, outputs, req};
    if (plan.threads_ == 1) {
      ThreadScope scope(1);
      plan.execute(call);
    } else {
      with_team([&] {
        ThreadScope scope(std::min(plan.threads_, static_cast<int>(context->threads)));
        plan.execute(call);
      });
    }
  });
}

Cost bandwidth_cost(const Signature& signature) {
  double bytes = 0;
  for (const auto* specs : {&signature.inputs, &signature.outputs}) {
    for (const Spec& spec : *specs) bytes += static_cast<double>(spec.bytes());
  }
  return {0, bytes};
}

const Signature& counted(const Signature& signature, size_t inputs, size_t outputs) {
  require_counts(signature, inputs, inputs, outputs, outputs);
  return signature;
}

void require_counts(const Signature& signature, size_t least_inputs, size_t most_inputs, size_t least_outputs,
                    size_t most_outputs) {
  const size_t in = signature.inputs.size(), out = signature.outputs.size();
  if (in < least_inputs || in > most_inputs || out < least_outputs || out > most_outputs) throw Unsupported{};
}

void require_sizes(const std::vector<Spec>& specs, std::initializer_list<int64_t> sizes) {
  if (specs.size() != sizes.size()) throw Unsupported{};
  size_t i = 0;
  for (int64_t size : sizes)
    if (specs[i++].size() != size) throw Unsupported{};
}

void require_float(const Signature& signature) {
  for (const auto* specs : {&signature.inputs, &signature.outputs}) {
    for (const Spec& spec : *specs) {
      if (spec.type != DataType::f32) throw Unsupported{};
    }
  }
}

namespace {

template <class T>
void accumulate_as(void* target, const void* source, size_t n) {
  auto* t = static_cast<T*>(target);
  const auto* s = static_cast<const T*>(source);
  parallel_for(static_cast<int64_t>(n / 4096 + 1), [&](int64_t begin, int64_t end) {
    const size_t last = std::min(n, static_cast<size_t>(end) * 4096);
    for (size_t i = static_cast<size_t>(begin) * 4096; i < last; ++i) t[i] = T(float(t[i]) + float(s[i]));
  });
}

}  // namespace

void accumulate(DataType type, void* target, const void* source, size_t n) {
  if (type == DataType::bf16) {
    accumulate_as<BFloat16>(target, source, n);
  } else {
    accumulate_as<float>(target, source, n);
  }
}

}  // namespace mx::onednn
