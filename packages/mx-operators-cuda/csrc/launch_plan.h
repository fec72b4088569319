// SPDX-License-Identifier: Apache-2.0
//
// A plan (mx.plan.v1) that enqueues kernels and matrix products one after another on the stream it is
// given.  What each kernel's parameters are is data, so every generator of kernels makes the same plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "blas.h"
#include "kernel.h"
#include "mx_core/kernel.h"
#include "parameter.h"

namespace mx::cuda {

struct Launch {
  std::shared_ptr<Kernel> kernel;
  uint32_t blocks;
  uint32_t threads;
  uint32_t shared_bytes;
  std::vector<Parameter> parameters;
};

struct TensorSpec {
  std::vector<int64_t> shape;
  int32_t dtype;
  size_t bytes;
};

// What run-time scalars must satisfy: `larger` is at least, or above, `smaller` (-1: zero).
struct Condition {
  uint32_t larger;
  int32_t smaller;
  bool above;
  std::string refusal;
};

// What a plan is made of.
struct Recipe {
  std::string name;  // the operator's
  int32_t gpu;
  std::vector<TensorSpec> inputs, outputs;
  uint32_t n_scalars = 0;
  std::vector<size_t> scratch;
  uint64_t random_blocks = 0;
  bool adds = true;  // false: a request to add is refused
  std::vector<Condition> conditions;
  std::vector<std::variant<Launch, Product>> steps;  // empty: there is nothing to compute
};

// Throws mx::Error for parameters that refer to what there is not, or a kernel that does not load.
class LaunchPlan final : public mx_plan {
 public:
  explicit LaunchPlan(Recipe recipe);
  LaunchPlan(const LaunchPlan&) = delete;
  LaunchPlan& operator=(const LaunchPlan&) = delete;

 private:
  static int32_t run_c(const mx_plan* self, const mx_kernel_context* context,
                       const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
                       const uint8_t* req, uint32_t n_outputs, mx_error* error);
  void check_call(const mx_kernel_context& context, const mx_tensor* inputs, uint32_t n_inputs,
                  const mx_tensor* outputs, const uint8_t* req, uint32_t n_outputs) const;
  struct Call;
  void execute(const Call& call) const;
  void enqueue(const Launch& launch, const Gpu& gpu, const Call& call) const;
  void enqueue(const Product& product, const Gpu& gpu, const Call& call) const;
  void check_step(const Launch& launch, const Gpu& gpu) const;
  void check_step(const Product& product, const Gpu& gpu) const;

  const Recipe recipe_;
  mutable std::atomic<uint32_t> references_{1};
};

}  // namespace mx::cuda
