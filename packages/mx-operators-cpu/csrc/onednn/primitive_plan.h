// SPDX-License-Identifier: Apache-2.0
//
// The C++ face of mx_plan: reference counting, error translation, checks of the arguments.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "onednn/descriptor.h"
#include "mx_core/failure.hpp"
#include "mx_core/kernel.h"
#include "onednn/runtime.h"

namespace mx::onednn {

// The arguments of one run.  Borrowed for its duration.
struct Call {
  const mx_kernel_context& context;
  const mx_tensor* inputs;
  const mx_tensor* outputs;
  const uint8_t* req;

  template <class T>
  const T* input(size_t i) const {
    return static_cast<const T*>(inputs[i].data);
  }
  // Auxiliary states are inputs that are written.
  template <class T>
  T* state(size_t i) const {
    return static_cast<T*>(inputs[i].data);
  }
  template <class T>
  T* output(size_t i) const {
    return static_cast<T*>(outputs[i].data);
  }
  bool wanted(size_t i) const { return req[i] != MX_REQ_NULL; }
  bool adds(size_t i) const { return req[i] == MX_REQ_ADD; }
};

// A prepared kernel.  Immutable once made: any number of threads may run it.
class Plan : public mx_plan {
 public:
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  virtual ~Plan() = default;

 protected:
  Plan(Signature signature, const Cost& cost);

  // Runs on the calling thread with its OpenMP team set.  May throw mx::Error and dnnl::error.
  virtual void execute(const Call& call) const = 0;

  // To be called from the constructor, before the plan is shared.
  void set_scratch(size_t bytes);

  const Signature signature_;
  const int threads_;  // the team the kernel was planned for

 private:
  static int32_t run_c(const mx_plan* self, const mx_kernel_context* context,
                       const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
                       const uint8_t* req, uint32_t n_outputs, mx_error* error);
  void check(const mx_tensor* inputs, uint32_t n_inputs, const mx_tensor* outputs,
             uint32_t n_outputs) const;

  mutable std::atomic<uint32_t> references_{1};
  size_t scratch_size_ = 0;
};

// All arguments once through memory.
Cost bandwidth_cost(const Signature& signature);

// The signature, if it has that many inputs and outputs; else throws Unsupported.
const Signature& counted(const Signature& signature, size_t inputs, size_t outputs);
// Throws Unsupported for fewer or more tensors than a kernel knows.
void require_counts(const Signature& signature, size_t least_inputs, size_t most_inputs, size_t least_outputs,
                    size_t most_outputs);
// Throws Unsupported unless the tensors have these numbers of elements: a kernel reads and writes no further.
void require_sizes(const std::vector<Spec>& specs, std::initializer_list<int64_t> sizes);

inline void require_size(const Spec& spec, int64_t size) {
  if (spec.size() != size) throw Unsupported{};
}

// For kernels that compute in float32 alone.
void require_float(const Signature& signature);

using PlanPtr = std::unique_ptr<Plan>;

// Adds n elements of `source` to `target`.
void accumulate(DataType type, void* target, const void* source, size_t n);

}  // namespace mx::onednn
