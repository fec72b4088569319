// SPDX-License-Identifier: Apache-2.0
#include "launch_plan.h"

#include <algorithm>
#include <utility>

#include "mx_core/failure.hpp"

namespace mx::cuda {
namespace {

constexpr size_t kParameters = 256;  // more than CUDA's 4 KiB hold

[[noreturn]] void refuse(const Recipe& recipe, mx_status status, const std::string& text) {
  throw Error(status, "[" + recipe.name + "] gpu(" + std::to_string(recipe.gpu) + "): " + text);
}

void check_tensor(const Recipe& recipe, const char* what, uint32_t i, const mx_tensor& given,
                  const TensorSpec& spec) {
  const bool same = given.dtype == spec.dtype && given.layout == 0 && given.bytes == spec.bytes &&
                    static_cast<size_t>(given.ndim) == spec.shape.size() &&
                    std::equal(spec.shape.begin(), spec.shape.end(), given.shape);
  if (!same) {
    const auto text = [](const int64_t* shape, size_t n) {
      std::string made = "(";
      for (size_t axis = 0; axis < n; ++axis) made += (axis ? ", " : "") + std::to_string(shape[axis]);
      return made + ")";
    };
    refuse(recipe, MX_ERROR_SHAPE,
           std::string(what) + " " + std::to_string(i) + ": the plan was made for shape " +
               text(spec.shape.data(), spec.shape.size()) + " and type code " +
               std::to_string(spec.dtype) + ", got " +
               text(given.shape, static_cast<size_t>(given.ndim)) + " and type code " +
               std::to_string(given.dtype));
  }
  if (given.bytes != 0 && (given.context.type != MX_GPU || given.context.id != recipe.gpu)) {
    refuse(recipe, MX_ERROR_VALUE,
           std::string(what) + " " + std::to_string(i) + " lies on " + name_of(given.context));
  }
}

size_t limit_of(const Recipe& recipe, Parameter::Kind kind) {
  switch (kind) {
    case Parameter::kInput: return recipe.inputs.size();
    case Parameter::kOutput:
    case Parameter::kRequest: return recipe.outputs.size();
    case Parameter::kScalar: return recipe.n_scalars;
    default: return recipe.scratch.size();
  }
}

void check_parameter(const Recipe& recipe, const Parameter& p, const std::string& owner) {
  if (p.kind <= Parameter::kScratch && p.number >= limit_of(recipe, p.kind)) {
    refuse(recipe, MX_ERROR_VALUE, owner + " has a parameter out of range");
  }
}

// The values a launch points to.
union Value {
  const void* pointer;
  double number;
  int32_t request;
  uint32_t narrow;
  uint64_t wide;
};

}  // namespace

// The arguments of one run.
struct LaunchPlan::Call {
  const mx_kernel_context& context;
  const mx_tensor* inputs;
  const mx_tensor* outputs;
  const uint8_t* req;

  Stream stream() const { return static_cast<Stream>(context.stream); }
  void* pointer(const Parameter& p) const {
    return p.kind == Parameter::kInput    ? inputs[p.number].data
           : p.kind == Parameter::kOutput ? outputs[p.number].data
                                          : context.scratch[p.number];
  }
};

LaunchPlan::LaunchPlan(Recipe recipe) : mx_plan{}, recipe_(std::move(recipe)) {
  Gpu& gpu = Gpu::at(recipe_.gpu);
  for (const auto& step : recipe_.steps) {
    std::visit([&](const auto& one) { check_step(one, gpu); }, step);
  }
  for (const Condition& c : recipe_.conditions) {
    if (c.larger >= recipe_.n_scalars || c.smaller >= static_cast<int32_t>(recipe_.n_scalars)) {
      refuse(recipe_, MX_ERROR_VALUE, "a condition of a scalar that there is not");
    }
  }
  head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
  n_scratch = static_cast<uint32_t>(recipe_.scratch.size());
  scratch_bytes = recipe_.scratch.data();
  random_blocks = recipe_.random_blocks;
  run = run_c;
  retain = [](mx_plan* self) {
    static_cast<LaunchPlan*>(self)->references_.fetch_add(1, std::memory_order_relaxed);
  };
  release = [](mx_plan* self) {
    auto* plan = static_cast<LaunchPlan*>(self);
    if (plan->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete plan;
  };
}

void LaunchPlan::check_step(const Launch& launch, const Gpu& gpu) const {
  if (launch.parameters.size() > kParameters || launch.blocks == 0 || launch.threads == 0) {
    refuse(recipe_, MX_ERROR_VALUE, "malformed launch of " + launch.kernel->name());
  }
  for (const Parameter& p : launch.parameters) check_parameter(recipe_, p, launch.kernel->name());
  launch.kernel->on(gpu);  // loads now, so that a run only launches
}

void LaunchPlan::check_step(const Product& product, const Gpu&) const {
  check_product(product);
  for (const Parameter& p : {product.a, product.b, product.c}) {
    check_parameter(recipe_, p, "a product");
    if (p.kind != Parameter::kInput && p.kind != Parameter::kOutput &&
        p.kind != Parameter::kScratch) {
      refuse(recipe_, MX_ERROR_VALUE, "a product of what is no tensor");
    }
  }
}

int32_t LaunchPlan::run_c(const mx_plan* self, const mx_kernel_context* context,
                          const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
                          const uint8_t* req, uint32_t n_outputs, mx_error* error) {
  return guarded(error, [&] {
    const auto* plan = static_cast<const LaunchPlan*>(self);
    plan->check_call(*context, inputs, n_inputs, outputs, req, n_outputs);
    plan->execute({*context, inputs, outputs, req});
  });
}

void LaunchPlan::check_call(const mx_kernel_context& context, const mx_tensor* inputs,
                            uint32_t n_inputs, const mx_tensor* outputs, const uint8_t* req,
                            uint32_t n_outputs) const {
  const Recipe& r = recipe_;
  if (n_inputs != r.inputs.size() || n_outputs != r.outputs.size() ||
      context.n_scalars < r.n_scalars) {
    refuse(r, MX_ERROR_VALUE,
           "the plan takes " + std::to_string(r.inputs.size()) + " inputs, " +
               std::to_string(r.n_scalars) + " scalars and " + std::to_string(r.outputs.size()) +
               " outputs; got " + std::to_string(n_inputs) + ", " +
               std::to_string(context.n_scalars) + " and " + std::to_string(n_outputs));
  }
  for (uint32_t i = 0; i < n_inputs; ++i) check_tensor(r, "input", i, inputs[i], r.inputs[i]);
  for (uint32_t i = 0; i < n_outputs; ++i) {
    check_tensor(r, "output", i, outputs[i], r.outputs[i]);
    if (req[i] > MX_REQ_ADD) {
      refuse(r, MX_ERROR_VALUE, "request: expected 0 to 3, got " + std::to_string(req[i]));
    }
    if (req[i] == MX_REQ_ADD && !r.adds) {
      refuse(r, MX_ERROR_UNSUPPORTED, "nothing is added to an output that is written in parts");
    }
  }
  for (const Condition& c : r.conditions) {
    const double larger = context.scalars[c.larger];
    const double smaller = c.smaller < 0 ? 0 : context.scalars[c.smaller];
    if (c.above ? larger > smaller : larger >= smaller) continue;
    refuse(r, MX_ERROR_VALUE,
           c.refusal + ": got " + std::to_string(larger) +
               (c.smaller < 0 ? "" : " and " + std::to_string(smaller)));
  }
  if (context.stream == nullptr) refuse(r, MX_ERROR_VALUE, "the plan needs a stream of the device");
}

void LaunchPlan::execute(const Call& call) const {
  const bool wanted = std::any_of(call.req, call.req + recipe_.outputs.size(),
                                  [](uint8_t request) { return request != MX_REQ_NULL; });
  if (recipe_.steps.empty() || (!wanted && !recipe_.outputs.empty())) return;
  const Gpu& gpu = Gpu::at(recipe_.gpu);  // refuses in a forked child
  const Current current(gpu);
  for (const auto& step : recipe_.steps) {
    std::visit([&](const auto& one) { enqueue(one, gpu, call); }, step);
  }
}

void LaunchPlan::enqueue(const Launch& launch, const Gpu& gpu, const Call& call) const {
  Value values[kParameters];
  void* pointers[kParameters];
  for (size_t i = 0; i < launch.parameters.size(); ++i) {
    const Parameter& p = launch.parameters[i];
    Value& value = values[i];
    pointers[i] = &value;
    switch (p.kind) {
      case Parameter::kInput:
      case Parameter::kOutput:
      case Parameter::kScratch: value.pointer = call.pointer(p); break;
      case Parameter::kRequest: value.request = call.req[p.number]; break;
      case Parameter::kScalar: value.number = call.context.scalars[p.number]; break;
      case Parameter::kUint32: value.narrow = static_cast<uint32_t>(p.number); break;
      case Parameter::kUint64: value.wide = p.number; break;
      case Parameter::kRandomKey: value.wide = call.context.random_key; break;
      case Parameter::kRandomOffset: value.wide = call.context.random_offset; break;
    }
  }
  const Result result =
      gpu.cuda().launch(launch.kernel->on(gpu), launch.blocks, 1, 1, launch.threads, 1, 1,
                        launch.shared_bytes, call.stream(), pointers, nullptr);
  if (result != kSuccess) check(result, recipe_.name + "] [" + gpu.name(), "cuLaunchKernel");
}

void LaunchPlan::enqueue(const Product& product, const Gpu& gpu, const Call& call) const {
  bool add = product.add;
  if (product.c.kind == Parameter::kOutput) {
    const uint8_t request = call.req[product.c.number];
    if (request == MX_REQ_NULL) return;
    add = add || request == MX_REQ_ADD;
  }
  multiply(gpu, call.stream(), product, call.pointer(product.a), call.pointer(product.b),
           call.pointer(product.c), add, recipe_.name + "] [" + gpu.name());
}

}  // namespace mx::cuda
