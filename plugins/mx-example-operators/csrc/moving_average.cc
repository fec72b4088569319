// SPDX-License-Identifier: Apache-2.0
#include "moving_average.h"

#include <atomic>
#include <cstring>
#include <type_traits>

#include "mx_core/failure.hpp"
#include "window_means.h"

namespace mx_example {
namespace {

enum class Direction { kForward, kBackward };

// Immutable after `prepare` but for the count, so any number of threads may run it.
struct Plan {
  mx_plan base{};  // first: a Plan* is an mx_plan*
  std::atomic<uint32_t> references{1};
  size_t scratch_bytes = 0;
  int64_t window = 1;
  int64_t padding = 0;  // zeros on both sides of a row
};
static_assert(std::is_standard_layout_v<Plan>, "a Plan* must be convertible to its first member");

void retain(mx_plan* self) {
  reinterpret_cast<Plan*>(self)->references.fetch_add(1, std::memory_order_relaxed);
}

void release(mx_plan* self) {
  auto* plan = reinterpret_cast<Plan*>(self);
  if (plan->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete plan;
}

template <class T>
int32_t run(const mx_plan* self, const mx_kernel_context* context, const mx_tensor* inputs,
            uint32_t /*n_inputs*/, const mx_tensor* outputs, const uint8_t* req,
            uint32_t /*n_outputs*/, mx_error* /*error*/) {
  const auto& plan = *reinterpret_cast<const Plan*>(self);
  const auto request = static_cast<mx_req>(req[0]);
  if (request == MX_REQ_NULL) return MX_OK;
  const int64_t length = inputs[0].shape[inputs[0].ndim - 1];
  const int64_t count = outputs[0].shape[outputs[0].ndim - 1];
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < inputs[0].ndim; ++i) rows *= inputs[0].shape[i];
  const auto* source = static_cast<const T*>(inputs[0].data);
  auto* target = static_cast<T*>(outputs[0].data);
  auto* suffix = static_cast<double*>(context->scratch[0]);
  for (int64_t r = 0; r < rows; ++r, source += length, target += count) {
    window_means<T>({source, length, plan.padding}, plan.window, request, suffix, target);
  }
  return MX_OK;
}

int64_t find_window(const mx_signature& signature) {
  for (uint32_t i = 0; i < signature.n_params; ++i) {
    const mx_param& param = signature.params[i];
    if (std::strcmp(param.name, "window") == 0 && param.is_number != 0) {
      return static_cast<int64_t>(param.number);
    }
  }
  throw mx::Error(MX_ERROR_VALUE, "[moving_average] window: expected int, got nothing");
}

int32_t prepare(void* self, const mx_signature* signature, mx_plan** result, mx_error* error) {
  return mx::guarded(error, [&] {
    const int32_t dtype = signature->inputs[0].dtype;
    if (dtype != MX_FLOAT32 && dtype != MX_FLOAT64) {  // another kernel or the reference has it
      throw mx::Error(MX_ERROR_UNSUPPORTED, "[moving_average] float32 and float64 only");
    }
    auto* plan = new Plan;
    plan->window = find_window(*signature);
    plan->padding = *static_cast<Direction*>(self) == Direction::kForward ? 0 : plan->window - 1;
    plan->scratch_bytes = static_cast<size_t>(plan->window) * sizeof(double);
    plan->base.head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
    plan->base.n_scratch = 1;
    plan->base.scratch_bytes = &plan->scratch_bytes;
    plan->base.run = dtype == MX_FLOAT32 ? run<float> : run<double>;
    plan->base.retain = retain;
    plan->base.release = release;
    *result = &plan->base;
  });
}

template <Direction kDirection>
const mx_kernel_api* table() {
  static Direction direction = kDirection;
  static const mx_kernel_api api = {
      {sizeof(mx_kernel_api), MX_KERNEL_MAJOR, MX_KERNEL_MINOR}, &direction, prepare};
  return &api;
}

}  // namespace

const mx_kernel_api* moving_average_kernel() { return table<Direction::kForward>(); }
const mx_kernel_api* backward_moving_average_kernel() { return table<Direction::kBackward>(); }

}  // namespace mx_example
