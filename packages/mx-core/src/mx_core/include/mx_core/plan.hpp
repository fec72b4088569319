// SPDX-License-Identifier: Apache-2.0
//
// The C++ face of mx_plan, header-only: reference count, checks of the arguments, scratch memory, requests, errors.
//
// A kernel derives from Plan, declares scratch in its constructor and computes in `execute`:
//
//   class Halve final : public mx::Plan {
//    public:
//     explicit Halve(mx::Signature signature) : Plan("halve", std::move(signature)) {}
//    private:
//     void execute(const mx::Call& call) const override {
//       if (!call.wanted(0)) return;
//       const float* x = call.input<float>(0);
//       float* y = call.target<float>(0);
//       for (int64_t i = 0; i < output(0).size(); ++i) y[i] = x[i] / 2;
//     }
//     bool stages(size_t i, const uint8_t* req) const override { return req[i] == MX_REQ_ADD; }
//   };
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mx_core/failure.hpp"
#include "mx_core/half.hpp"
#include "mx_core/kernel.h"
#include "mx_core/types.hpp"

namespace mx {

using Shape = std::vector<int64_t>;

// Scratch sections begin at multiples of this.
constexpr size_t kScratchAlignment = 64;
// At least so many bytes between two sections are nobody's: tests see what is written there.
constexpr size_t kScratchGap = 16;
constexpr size_t aligned(size_t bytes) { return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment; }

// What a plan was made for: one tensor, row-major.
class Spec {
 public:
  // Throws Error for a negative extent, an unknown element type, and a size that does not fit.
  Spec(Shape shape_, int32_t dtype_) : shape(std::move(shape_)), dtype(dtype_), bytes_(item_size(dtype_)) {
    if (bytes_ == 0) throw Error(MX_ERROR_UNSUPPORTED, "element type code " + std::to_string(dtype) + " is unknown");
    for (const int64_t extent : shape) {
      if (extent < 0 || __builtin_mul_overflow(size_, extent, &size_))
        throw Error(MX_ERROR_SHAPE, "a tensor's size is negative or does not fit");
    }
    if (size_ > INT64_MAX / static_cast<int64_t>(bytes_)) throw Error(MX_ERROR_SHAPE, "a tensor's size does not fit");
    bytes_ *= static_cast<size_t>(size_);
  }
  explicit Spec(const mx_tensor& tensor) : Spec(Shape(tensor.shape, tensor.shape + tensor.ndim), tensor.dtype) {}

  int64_t size() const { return size_; }  // elements
  size_t bytes() const { return bytes_; }

  Shape shape;
  int32_t dtype;

 private:
  int64_t size_ = 1;
  size_t bytes_;
};

struct Signature {
  std::vector<Spec> inputs, outputs;
  uint32_t n_scalars = 0;  // run-time scalars that a run needs at least
};

// What a kernel table's `prepare` was asked for.
inline Signature signature_of(const mx_signature& asked) {
  Signature made;
  for (uint32_t i = 0; i < asked.n_inputs; ++i) made.inputs.emplace_back(asked.inputs[i]);
  for (uint32_t i = 0; i < asked.n_outputs; ++i) made.outputs.emplace_back(asked.outputs[i]);
  return made;
}

// Adds `source` to `target`, element by element, in the type's own arithmetic; 16-bit floats in float32.
void add_elements(int32_t dtype, void* target, const void* source, int64_t n);

class Plan;

// A part of a plan's scratch memory; `Plan::add_scratch` makes it.
struct Section {
  size_t offset = 0;
};

// The arguments of one run.  Borrowed for its duration.
struct Call {
  const mx_kernel_context& context;
  const mx_tensor* inputs;
  const mx_tensor* outputs;
  const uint8_t* req;
  const Plan& plan;

  template <class T = char>
  const T* input(size_t i) const {
    return static_cast<const T*>(inputs[i].data);
  }
  // An input that the operator writes: an auxiliary or optimizer state.
  template <class T = char>
  T* state(size_t i) const {
    return static_cast<T*>(inputs[i].data);
  }
  // The caller's memory of output i.
  template <class T = char>
  T* output(size_t i) const {
    return static_cast<T*>(outputs[i].data);
  }
  // Where output i is to be written: its staging memory where it is staged, else the caller's.
  template <class T = char>
  T* target(size_t i) const;
  template <class T = char>
  T* scratch(Section section) const;  // nullptr where the plan declared none
  bool wanted(size_t i) const { return req[i] != MX_REQ_NULL; }
  bool adds(size_t i) const { return req[i] == MX_REQ_ADD; }
  double scalar(size_t i) const { return context.scalars[i]; }
};

// A prepared kernel.  Immutable once made.
// Threads: any number may run it.  Owns: itself, by its reference count; the maker has the first reference.
class Plan : public mx_plan {
 public:
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  virtual ~Plan() = default;

  const Spec& input(size_t i) const { return signature_.inputs[i]; }
  const Spec& output(size_t i) const { return signature_.outputs[i]; }

 protected:
  // `name`: what refusals call the plan.
  Plan(std::string name, Signature signature) : mx_plan{}, name_(std::move(name)), signature_(std::move(signature)) {
    head = {sizeof(mx_plan), MX_KERNEL_MAJOR, MX_KERNEL_MINOR};
    run = &Plan::run_c;
    staging_bytes = &Plan::staging_bytes_c;
    retain = &Plan::retain_c;
    release = &Plan::release_c;
  }

  // Computes what is wanted.  May throw; whatever it throws becomes the run's error.
  virtual void execute(const Call& call) const = 0;

  // Runs the plan once the arguments are checked; kernel libraries put around it what all their kernels need.
  virtual void enter(const Call& call) const { execute_staged(call); }
  void execute_staged(const Call& call) const {
    execute(call);
    for (size_t i = 0; i < signature_.outputs.size(); ++i)
      if (call.adds(i) && stages(i, call.req)) add(output(i), call.output(i), call.target(i));
  }

  // Whether output i is computed into staging memory, which Call::target gives: outputs that are added to by a
  // kernel that only writes, and unwanted ones that it writes all the same.  What is staged for MX_REQ_ADD is added
  // to the output after `execute`.  `req`: the requests of all outputs.
  virtual bool stages(size_t /*output*/, const uint8_t* /*req*/) const { return false; }
  // Bytes of staging memory for these requests.
  virtual size_t staging(const uint8_t* req) const {
    size_t bytes = 0;
    for (size_t i = 0; i < signature_.outputs.size(); ++i)
      if (stages(i, req)) bytes += aligned(output(i).bytes());
    return bytes;
  }
  virtual void add(const Spec& spec, void* target, const void* source) const {
    add_elements(spec.dtype, target, source, spec.size());
  }

  // Further checks of the arguments; throws.
  virtual void check(const Call& /*call*/) const {}

  // Scratch memory that every run gets.  To be called before the plan is shared.  Throws std::bad_alloc.
  Section add_scratch(size_t bytes) {
    if (bytes > (SIZE_MAX - scratch_size_) / 2) throw std::bad_alloc();
    const size_t begin = sections_.empty() ? 0 : aligned(sections_.back().offset + sections_.back().bytes + kScratchGap);
    sections_.push_back({0, 0, begin, bytes});
    sections = sections_.data();
    n_sections = static_cast<uint32_t>(sections_.size());
    scratch_size_ = begin + aligned(bytes);
    scratch_bytes = &scratch_size_;
    n_scratch = scratch_size_ > 0 ? 1 : 0;
    return {begin};
  }
  template <class T>
  Section add_scratch(int64_t n) {
    return add_scratch(static_cast<size_t>(n > 0 ? n : 0) * sizeof(T));
  }

  [[noreturn]] void refuse(mx_status status, const std::string& why) const {
    throw Error(status, "[" + name_ + "] " + why);
  }

  const std::string name_;
  const Signature signature_;

 private:
  friend struct Call;

  static int32_t run_c(const mx_plan* self, const mx_kernel_context* context, const mx_tensor* inputs,
                       uint32_t n_inputs, const mx_tensor* outputs, const uint8_t* req, uint32_t n_outputs,
                       mx_error* error) {
    return guarded(error, [&] {
      const auto& plan = static_cast<const Plan&>(*self);
      plan.check_counts(*context, n_inputs, n_outputs);
      for (uint32_t i = 0; i < n_inputs; ++i) plan.check_tensor("input", i, inputs[i], plan.input(i));
      for (uint32_t i = 0; i < n_outputs; ++i) {
        plan.check_tensor("output", i, outputs[i], plan.output(i));
        if (req[i] > MX_REQ_ADD) plan.refuse(MX_ERROR_VALUE, "request: expected 0 to 3, got " + std::to_string(req[i]));
      }
      const Call call{*context, inputs, outputs, req, plan};
      const bool staged = MX_HAS(context->size, mx_kernel_context, staging) && context->staging != nullptr;
      if (!staged && plan.staging(req) > 0)
        plan.refuse(MX_ERROR_ABI, "whoever runs the plan gives it no staging memory");
      plan.check(call);
      plan.enter(call);
    });
  }

  static void retain_c(mx_plan* self) {
    static_cast<Plan&>(*self).references_.fetch_add(1, std::memory_order_relaxed);
  }
  static void release_c(mx_plan* self) {
    Plan& plan = static_cast<Plan&>(*self);
    if (plan.references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &plan;
  }

  static size_t staging_bytes_c(const mx_plan* self, const uint8_t* req, uint32_t n_outputs) {
    const auto& plan = static_cast<const Plan&>(*self);
    return n_outputs == plan.signature_.outputs.size() ? plan.staging(req) : 0;
  }

  void check_counts(const mx_kernel_context& context, uint32_t n_inputs, uint32_t n_outputs) const {
    const Signature& s = signature_;
    if (n_inputs == s.inputs.size() && n_outputs == s.outputs.size() && context.n_scalars >= s.n_scalars) return;
    refuse(MX_ERROR_VALUE, "the plan takes " + std::to_string(s.inputs.size()) + " inputs, " +
                               std::to_string(s.n_scalars) + " scalars and " + std::to_string(s.outputs.size()) +
                               " outputs; got " + std::to_string(n_inputs) + ", " + std::to_string(context.n_scalars) +
                               " and " + std::to_string(n_outputs));
  }

  void check_tensor(const char* what, uint32_t i, const mx_tensor& tensor, const Spec& spec) const {
    if (tensor.dtype == spec.dtype && tensor.bytes == spec.bytes() && tensor.layout == 0) return;
    refuse(MX_ERROR_SHAPE, std::string(what) + " " + std::to_string(i) + ": the plan was made for type code " +
                               std::to_string(spec.dtype) + " and " + std::to_string(spec.bytes()) +
                               " bytes, got type code " + std::to_string(tensor.dtype) + " and " +
                               std::to_string(tensor.bytes) + " bytes" + (tensor.layout == 0 ? "" : " in a layout"));
  }

  std::atomic<uint32_t> references_{1};
  std::vector<mx_scratch_section> sections_;
  size_t scratch_size_ = 0;
};

using PlanPtr = std::unique_ptr<Plan>;

template <class T>
T* Call::target(size_t i) const {
  if (!plan.stages(i, req)) return output<T>(i);
  auto* memory = static_cast<char*>(context.staging);
  for (size_t j = 0; j < i; ++j)
    if (plan.stages(j, req)) memory += aligned(plan.output(j).bytes());
  return reinterpret_cast<T*>(memory);
}

template <class T>
T* Call::scratch(Section section) const {
  if (plan.n_scratch == 0) return nullptr;
  return reinterpret_cast<T*>(static_cast<char*>(context.scratch[0]) + section.offset);
}

namespace detail {

template <class T, class Compute = T>
void add_as(void* target, const void* source, int64_t n) {
  auto* to = static_cast<T*>(target);
  const auto* from = static_cast<const T*>(source);
  for (int64_t i = 0; i < n; ++i) to[i] = T(static_cast<Compute>(to[i]) + static_cast<Compute>(from[i]));
}

}  // namespace detail

inline void add_elements(int32_t dtype, void* target, const void* source, int64_t n) {
  using detail::add_as;
  switch (dtype) {
    case MX_FLOAT32: return add_as<float>(target, source, n);
    case MX_FLOAT64: return add_as<double>(target, source, n);
    case MX_FLOAT16: return add_as<Float16, float>(target, source, n);
    case MX_BFLOAT16: return add_as<BFloat16, float>(target, source, n);
    case MX_BOOL: return add_as<bool>(target, source, n);  // or
    case MX_UINT8: case MX_INT8: return add_as<uint8_t>(target, source, n);  // unsigned: wraps around
    case MX_INT16: case MX_UINT16: return add_as<uint16_t>(target, source, n);
    case MX_INT32: case MX_UINT32: return add_as<uint32_t>(target, source, n);
    case MX_INT64: case MX_UINT64: return add_as<uint64_t>(target, source, n);
    case MX_COMPLEX64: return add_as<float>(target, source, 2 * n);
    case MX_COMPLEX128: return add_as<double>(target, source, 2 * n);
    default: throw Error(MX_ERROR_UNSUPPORTED, "element type code " + std::to_string(dtype) + " cannot be added");
  }
}

}  // namespace mx
