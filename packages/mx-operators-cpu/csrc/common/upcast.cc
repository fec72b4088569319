// SPDX-License-Identifier: Apache-2.0
#include "common/upcast.hpp"

#include <algorithm>

#include "simd/accumulate.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kParallelWork = 100'000;
constexpr int64_t kConverted = 32 << 10;  // elements a thread converts at a time

}  // namespace

void deliver(const Call& call, size_t output, const Spec& spec, Compute type, const void* values, int64_t first,
             int64_t n) {
  char* to = call.output(output) + static_cast<size_t>(first) * item_size(spec.dtype);
  alignas(64) char stored[sizeof(double) * kDelivered];
  loops().store[type][spec.dtype](call.adds(output) ? stored : to, values, static_cast<size_t>(n));
  if (call.adds(output)) accumulate(spec.dtype, to, stored, n);
}

UpcastPlan::UpcastPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int dtype, int64_t work,
                       uint32_t n_scalars)
    : Plan(std::move(inputs), std::move(outputs), n_scalars), type_(compute_of(dtype)) {
  if (!floating(dtype)) throw Error(MX_ERROR_UNSUPPORTED, "[mx-operators-cpu] no loops for this type");
  if (work > kParallelWork) set_parallel();
  const auto place = [&](const Spec& spec, bool needed) {
    upcast_.push_back(add_scratch(needed ? static_cast<size_t>(spec.size()) * sizeof(double) : 0));
  };
  for (const Spec& spec : inputs_) place(spec, spec.dtype != kStorageOf[type_]);
  for (const Spec& spec : outputs_) place(spec, floating(spec.dtype) && spec.dtype != kStorageOf[type_]);
}

bool UpcastPlan::stages(size_t i, const uint8_t* req) const {
  const int32_t dtype = outputs_[i].dtype;
  return req[i] == MX_REQ_ADD && (!floating(dtype) || dtype == kStorageOf[type_]);
}

const void* UpcastPlan::read(const Call& call, size_t i, Compute as) const {
  const Spec& spec = inputs_[i];
  if (spec.dtype == kStorageOf[as]) return call.input(i);
  if (spec.size() == 0) return nullptr;
  char* made = call.scratch(upcast_[i]);
  const size_t to = item_size(kStorageOf[as]), from = item_size(spec.dtype);
  parallel_for(spec.size(), kConverted, [&](int64_t begin, int64_t end) {
    loops().load[spec.dtype][as](made + static_cast<size_t>(begin) * to, call.input(i) + static_cast<size_t>(begin) * from,
                                 static_cast<size_t>(end - begin));
  });
  return made;
}

template <class T>
Result<T>::Result(const UpcastPlan& plan, const Call& call, size_t i)
    : call_(call), spec_(plan.outputs_[i]), index_(i) {
  if (!call.wanted(i)) return;
  const bool same = spec_.dtype == kStorageOf[ComputeOf<T>::code];
  if (!same && !floating(spec_.dtype))
    throw Error(MX_ERROR_UNSUPPORTED, "[mx-operators-cpu] no loops for this type of output");
  data_ = same || spec_.size() == 0 ? call.target<T>(i) : call.scratch<T>(plan.upcast_[plan.inputs_.size() + i]);
}

template <class T>
void Result<T>::deliver() {
  if (data_ == nullptr || spec_.dtype == kStorageOf[ComputeOf<T>::code]) return;
  parallel_for(spec_.size(), kConverted, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kDelivered)
      mx::cpu::deliver(call_, index_, spec_, ComputeOf<T>::code, data_ + first, first, std::min(kDelivered, end - first));
  });
}

template class Result<float>;
template class Result<double>;
template class Result<int32_t>;
template class Result<int64_t>;

}  // namespace mx::cpu
