// SPDX-License-Identifier: Apache-2.0
//
// Plans that compute in one floating-point type, whatever real types their tensors have.
#pragma once

#include <memory>
#include <vector>

#include "common/plan.h"

namespace mx::vector {

template <class T> struct ComputeOf;
template <> struct ComputeOf<float> { static constexpr Compute code = F32; };
template <> struct ComputeOf<double> { static constexpr Compute code = F64; };
template <> struct ComputeOf<int32_t> { static constexpr Compute code = I32; };
template <> struct ComputeOf<int64_t> { static constexpr Compute code = I64; };

template <class T> class Result;

class WidePlan : public Plan {
 protected:
  // Computes in the type that `dtype`, a floating-point one, is widened to.  `work` is about how many
  // elementary steps a run takes.
  WidePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int dtype, int64_t work, uint32_t n_scalars = 0);

  // An input as T; converted into scratch memory unless it is stored so.  Once per run and input.
  template <class T> const T* read(const Call& call, size_t i) const;

  uint32_t threads(const Call& call) const { return flags != 0 ? call.context.threads : 1; }

  const Compute type_;  // F32 or F64

 private:
  template <class T> friend class Result;
  const void* read(const Call& call, size_t i, Compute as) const;
  char* scratch(const Call& call, size_t tensor) const;

  std::vector<size_t> places_;  // of inputs, then outputs, in the scratch memory
  size_t bytes_ = 0;
};

// Kernels write `compute<T>(call)`, for float and double.
template <class Kernel>
class TypedPlan : public WidePlan {
 protected:
  using WidePlan::WidePlan;
  void execute(const Call& call) const final {
    const auto& kernel = static_cast<const Kernel&>(*this);
    type_ == F64 ? kernel.template compute<double>(call) : kernel.template compute<float>(call);
  }
};

template <class T>
const T* WidePlan::read(const Call& call, size_t i) const {
  return static_cast<const T*>(read(call, i, ComputeOf<T>::code));
}

// Where output i is computed: in place, or aside if it is converted or added.
template <class T>
class Result {
 public:
  Result(const WidePlan& plan, const Call& call, size_t i);
  T* data() const { return data_; }  // nullptr when not wanted
  // Converts and adds; call it once all is computed.
  void deliver();

 private:
  const Call& call_;
  const Spec& spec_;
  const size_t index_;
  const uint32_t threads_;
  std::unique_ptr<char[]> aside_;  // when it is added
  T* data_ = nullptr;
};

extern template class Result<float>;
extern template class Result<double>;
extern template class Result<int32_t>;
extern template class Result<int64_t>;

// Writes a piece of an output, or adds it: n values from element `first` on, at most kDelivered.
constexpr int64_t kDelivered = 512;
void deliver(const Call& call, size_t output, const Spec& spec, Compute type, const void* values, int64_t first,
             int64_t n);

// Throws mx::Error(MX_ERROR_SHAPE) unless the shapes of an operator's tensors agree.
inline void fits(bool agree, const char* op) {
  if (!agree) throw Error(MX_ERROR_SHAPE, std::string("[") + op + "] shapes do not agree");
}

// Whether loops compute in a floating-point type for this one.
inline bool floating(int dtype) { return known(dtype) && (compute_of(dtype) == F32 || compute_of(dtype) == F64); }

}  // namespace mx::vector
