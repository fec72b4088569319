// SPDX-License-Identifier: Apache-2.0
//
// Plans that compute in one floating-point type, whatever real types their tensors have.
#pragma once

#include <string>
#include <vector>

#include "common/dtype.hpp"
#include "common/plan.hpp"

namespace mx::cpu {

template <class T> class Result;

class UpcastPlan : public Plan {
 protected:
  // Computes in the type that `dtype`, a floating-point one, is upcast to.  `work` is about how many
  // elementary steps a run takes.
  UpcastPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int dtype, int64_t work, uint32_t n_scalars = 0);

  // An input as T; converted into scratch memory unless it is stored so.  Once per run and input.
  template <class T> const T* read(const Call& call, size_t i) const;

  // What is computed in its own type is staged when it is added; the rest is added as it is converted.
  bool stages(size_t i, const uint8_t* req) const override;

  const Compute type_;  // F32 or F64

 private:
  template <class T> friend class Result;
  const void* read(const Call& call, size_t i, Compute as) const;

  std::vector<Section> upcast_;  // of inputs, then outputs
};

// Kernels write `compute<T>(call)`, for float and double.
template <class Kernel>
class TypedPlan : public UpcastPlan {
 protected:
  using UpcastPlan::UpcastPlan;
  void execute(const Call& call) const final {
    const auto& kernel = static_cast<const Kernel&>(*this);
    type_ == F64 ? kernel.template compute<double>(call) : kernel.template compute<float>(call);
  }
};

template <class T>
const T* UpcastPlan::read(const Call& call, size_t i) const {
  return static_cast<const T*>(read(call, i, ComputeOf<T>::code));
}

// Where output i is computed: where it is written, or in scratch memory if it is converted.
template <class T>
class Result {
 public:
  Result(const UpcastPlan& plan, const Call& call, size_t i);
  T* data() const { return data_; }  // nullptr when not wanted
  // Converts, and adds where that is asked for; call it once all is computed.
  void deliver();

 private:
  const Call& call_;
  const Spec& spec_;
  const size_t index_;
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

}  // namespace mx::cpu
