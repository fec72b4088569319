// SPDX-License-Identifier: Apache-2.0
#include "common/upcast.h"

#include "simd/loops.h"
#include "indexing/strided_copy.h"
#include "common/thread_pool.h"

namespace mx::vector {
namespace {

constexpr int64_t kParallelWork = 100'000;
constexpr int64_t kConverted = 32 << 10;  // elements a thread converts at a time

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void deliver(const Call& call, size_t output, const Spec& spec, Compute type, const void* values, int64_t first,
             int64_t n) {
  char* to = call.output(output) + static_cast<size_t>(first) * item_size(spec.dtype);
  alignas(64) char stored[sizeof(double) * kDelivered];
  loops().store[type][spec.dtype](call.adds(output) ? stored : to, values, static_cast<size_t>(n));
  if (call.adds(output)) accumulate(spec.dtype, to, stored, n);
}

WidePlan::WidePlan(std::vector<Spec> inputs, std::vector<Spec> outputs, int dtype, int64_t work, uint32_t n_scalars)
    : Plan(std::move(inputs), std::move(outputs), n_scalars), type_(compute_of(dtype)) {
  if (!floating(dtype)) throw Error(MX_ERROR_UNSUPPORTED, "[mx-operators-cpu] no loops for this type");
  if (work > kParallelWork) flags = MX_PLAN_PARALLEL | MX_PLAN_HEAVY;
  const auto place = [&](const Spec& spec, bool needed) {
    places_.push_back(bytes_);
    if (needed) bytes_ += aligned(static_cast<size_t>(spec.elements) * sizeof(double));
  };
  for (const Spec& spec : inputs_) place(spec, spec.dtype != kStorageOf[type_]);
  for (const Spec& spec : outputs_) place(spec, floating(spec.dtype) && spec.dtype != kStorageOf[type_]);
  n_scratch = bytes_ > 0 ? 1 : 0;
  scratch_bytes = &bytes_;
}

char* WidePlan::scratch(const Call& call, size_t tensor) const {
  return static_cast<char*>(call.context.scratch[0]) + places_[tensor];
}

const void* WidePlan::read(const Call& call, size_t i, Compute as) const {
  const Spec& spec = inputs_[i];
  if (spec.dtype == kStorageOf[as]) return call.input(i);
  if (spec.elements == 0) return nullptr;
  char* made = scratch(call, i);
  const size_t to = item_size(kStorageOf[as]), from = item_size(spec.dtype);
  parallel(threads(call), spec.elements, kConverted, [&](int64_t begin, int64_t end) {
    loops().load[spec.dtype][as](made + static_cast<size_t>(begin) * to, call.input(i) + static_cast<size_t>(begin) * from,
                                 static_cast<size_t>(end - begin));
  });
  return made;
}

template <class T>
Result<T>::Result(const WidePlan& plan, const Call& call, size_t i)
    : call_(call), spec_(plan.outputs_[i]), index_(i), threads_(plan.threads(call)) {
  if (!call.wanted(i)) return;
  const bool same = spec_.dtype == kStorageOf[ComputeOf<T>::code];
  if (!same && !floating(spec_.dtype))
    throw Error(MX_ERROR_UNSUPPORTED, "[mx-operators-cpu] no loops for this type of output");
  const auto n = static_cast<size_t>(spec_.elements);
  if (call.adds(i)) aside_.reset(new char[n * (sizeof(T) + (same ? 0 : item_size(spec_.dtype)))]);
  data_ = reinterpret_cast<T*>(aside_ ? aside_.get()
                               : same || n == 0 ? call.output(i)
                                                : plan.scratch(call, plan.inputs_.size() + i));
}

template <class T>
void Result<T>::deliver() {
  const bool same = spec_.dtype == kStorageOf[ComputeOf<T>::code];
  if (data_ == nullptr || spec_.elements == 0 || (same && !aside_)) return;
  const size_t item = item_size(spec_.dtype);
  char* out = call_.output(index_);
  char* stored = reinterpret_cast<char*>(data_);
  if (!same) stored = aside_ ? aside_.get() + static_cast<size_t>(spec_.elements) * sizeof(T) : out;
  parallel(threads_, spec_.elements, kConverted, [&](int64_t begin, int64_t end) {
    const size_t first = static_cast<size_t>(begin) * item;
    if (!same)
      loops().store[ComputeOf<T>::code][spec_.dtype](stored + first, data_ + begin, static_cast<size_t>(end - begin));
    if (aside_) accumulate(spec_.dtype, out + first, stored + first, end - begin);
  });
}

template class Result<float>;
template class Result<double>;
template class Result<int32_t>;
template class Result<int64_t>;

}  // namespace mx::vector
