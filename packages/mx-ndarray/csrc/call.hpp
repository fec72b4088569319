// SPDX-License-Identifier: Apache-2.0
//
// A prepared operator call: one signature, one kernel.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "array.hpp"
#include "mx_core/kernel.h"

namespace mx::nd {

// What a kernel was prepared for.
struct TensorSpec {
  Shape shape;
  int32_t dtype = MX_FLOAT32;
  uint64_t layout = 0;
  size_t bytes = 0;
};

// One run of a call: everything is borrowed and valid during the run only.
struct Execution {
  const mx_kernel_context* context = nullptr;
  const mx_tensor* inputs = nullptr;
  uint32_t n_inputs = 0;
  const mx_tensor* outputs = nullptr;
  const uint8_t* req = nullptr;
  uint32_t n_outputs = 0;
  // Chunks after inputs, then outputs, for kernels that may keep a view; NULL in programs.
  Chunk* const* owners = nullptr;
};

// A kernel that is not a plan (a Python function).  Owned by its call.
class ForeignKernel {
 public:
  virtual ~ForeignKernel() = default;
  // Threads: any number, without the GIL.  Applies `req` itself.  NULL on success.
  virtual mx_failure* run(const ::mx_call& call, const Execution& execution) noexcept = 0;
};

}  // namespace mx::nd

// Immutable once built.  Threads: any.
struct mx_call final : mx::nd::Counted {
  const char* name = "";  // lives as long as the process
  mx_context context{MX_CPU, 0};
  std::vector<mx::nd::TensorSpec> inputs;   // auxiliary states last
  std::vector<mx::nd::TensorSpec> outputs;
  uint32_t visible_outputs = 0;
  std::vector<uint32_t> mutated;            // indices of inputs that are written
  std::vector<bool> shape_only;             // per input: its values are not read (may be empty)
  std::vector<std::pair<uint32_t, uint32_t>> inplace;  // (input, output) that may share memory
  uint32_t n_scalars = 0;
  uint64_t random_blocks = 0;
  bool dynamic_output = false;
  std::string kernel = "a kernel";              // "kernel 'onednn' of plug-in 'operators_cpu'"
  mx_plan* plan = nullptr;                       // Owns: a reference
  std::unique_ptr<mx::nd::ForeignKernel> foreign;  // exactly one of plan and foreign is set
  uint32_t push_flags = 0;                       // MX_PUSH_*
  // Short enough to run on the pushing thread even while that holds the GIL.
  bool runs_inline = false;

  void retain() noexcept { add_reference(); }
  void release() noexcept {
    if (drop_reference()) delete this;
  }
  bool is_mutated(uint32_t input) const noexcept;
  bool reads(uint32_t input) const noexcept { return shape_only.empty() || !shape_only[input]; }
  // Fills sizes and flags from the rest; to be called once, last.
  void seal();
  ~mx_call();
};

namespace mx::nd {

using Call = ::mx_call;

// Bytes an inline operation may touch: above this another thread is worth its cost.
constexpr size_t kInlineBytes = size_t{64} << 10;

// Host side of `alloc_output`.
class DynamicOutputs {
 public:
  virtual ~DynamicOutputs() = default;
  // Gives output `i` its shape and memory.  Throws Error.
  virtual void allocate(uint32_t i, Shape shape, mx_tensor* tensor) = 0;
};

// Runs a call on this thread: scratch, kernel, scratch back.  The caller owns the variables.
mx_failure* execute(const Call& call, const mx_run_context& run, Execution execution,
                    const double* scalars, uint32_t n_scalars, bool is_train, uint64_t random_key,
                    uint64_t random_offset, DynamicOutputs* dynamic) noexcept;

// Pushes a call to the engine; `origin` is NULL or lives as long as the process.  Throws Error; a
// naive engine's failure is thrown as FailureError.
void push(Call& call, Array* const* inputs, uint32_t n_inputs, Array* const* outputs,
          const uint8_t* req, uint32_t n_outputs, const double* scalars, uint32_t n_scalars,
          bool is_train, int32_t priority, const char* origin);

// As mx::failing; a failure that travels as FailureError is passed on as it is.
template <class Body>
mx_failure* failing_or_passing(Body&& body) noexcept {
  mx_failure* passed = nullptr;
  mx_failure* made = failing([&] {
    try {
      body();
    } catch (FailureError& error) {
      passed = error.failure.release();
    }
  });
  return made != nullptr ? made : passed;
}

}  // namespace mx::nd
