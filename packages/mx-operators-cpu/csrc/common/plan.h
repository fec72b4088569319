// SPDX-License-Identifier: Apache-2.0
//
// The C++ face of mx_plan: reference counting, checks of the arguments, errors, threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "mx_core/failure.hpp"
#include "mx_core/kernel.h"

namespace mx::vector {

using Shape = std::vector<int64_t>;

inline int64_t product(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

// What a plan was made for: one tensor.
struct Spec {
  Spec(Shape shape_, int dtype_)
      : shape(std::move(shape_)),
        dtype(dtype_),
        elements(product(shape)),
        bytes(known(dtype) ? static_cast<size_t>(elements) * item_size(dtype) : 0) {}
  Shape shape;
  int dtype;
  int64_t elements;
  size_t bytes;
};

// The arguments of one run.  Borrowed for its duration.
struct Call {
  const mx_kernel_context& context;
  const mx_tensor* inputs;
  const mx_tensor* outputs;
  const uint8_t* req;

  const char* input(size_t i) const { return static_cast<const char*>(inputs[i].data); }
  // An input the operator writes: an auxiliary or optimizer state.
  char* state(size_t i) const { return static_cast<char*>(inputs[i].data); }
  char* output(size_t i) const { return static_cast<char*>(outputs[i].data); }
  bool wanted(size_t i) const { return req[i] != MX_REQ_NULL; }
  bool adds(size_t i) const { return req[i] == MX_REQ_ADD; }
  double scalar(size_t i) const { return context.scalars[i]; }
};

// A prepared kernel.  Immutable once made: any number of threads may run it.
class Plan : public mx_plan {
 public:
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  virtual ~Plan() = default;

 protected:
  // Throws mx::Error for an element type without loops.
  Plan(std::vector<Spec> inputs, std::vector<Spec> outputs, uint32_t n_scalars = 0);

  // May throw mx::Error.
  virtual void execute(const Call& call) const = 0;

  const std::vector<Spec> inputs_;
  const std::vector<Spec> outputs_;
  const uint32_t n_scalars_;

 private:
  static int32_t run_c(const mx_plan* self, const mx_kernel_context* context,
                       const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
                       const uint8_t* req, uint32_t n_outputs, mx_error* error);
  static void retain_c(mx_plan* self);
  static void release_c(mx_plan* self);
  void check(const mx_kernel_context& context, const mx_tensor* inputs, uint32_t n_inputs,
             const mx_tensor* outputs, uint32_t n_outputs) const;

  mutable std::atomic<uint32_t> references_{1};
};

using PlanPtr = std::unique_ptr<Plan>;

// Total bytes of inputs and outputs above which plans use several threads.
constexpr size_t kParallelBytes = size_t{512} << 10;

}  // namespace mx::vector
