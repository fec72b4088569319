// SPDX-License-Identifier: Apache-2.0
#include "operator.hpp"

namespace mx::nd {

Params::~Params() { delete gradient.load(std::memory_order_relaxed); }

namespace {

void add(const Array& array, CacheKey& key) {
  const Shape& shape = array.shape();
  key.add((static_cast<uint64_t>(array.dtype()) << 8) | static_cast<uint64_t>(shape.ndim()));
  for (int32_t i = 0; i < shape.ndim(); ++i) key.add(static_cast<uint64_t>(shape[i]));
}

}  // namespace

Ref<Call> Operator::call(const Signature& signature) {
  static thread_local CacheKey key;
  key.clear();
  key.add(signature.params->key);
  const uint64_t train = train_sensitive && signature.is_train ? 1 : 0;
  key.add((uint64_t{signature.n_inputs} << 33) | (uint64_t{signature.n_outputs} << 1) | train);
  key.add((static_cast<uint64_t>(static_cast<uint32_t>(signature.context.type)) << 32) |
          static_cast<uint32_t>(signature.context.id));
  for (uint32_t i = 0; i < signature.n_inputs; ++i) add(*signature.inputs[i], key);
  for (uint32_t i = 0; i < signature.n_outputs; ++i) add(*signature.outputs[i], key);
  if (Ref<Call> found = cache.find(key)) return found;
  const CacheKey mine = key;  // preparing may invoke operators on this thread
  return cache.insert(mine, prepare(signature));
}

const Gradient& Operator::gradient(Params& params) {
  if (const Gradient* known = params.gradient.load(std::memory_order_acquire)) return *known;
  std::unique_ptr<const Gradient> made = make_gradient(params);
  const Gradient* first = nullptr;
  if (params.gradient.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *first;
}

}  // namespace mx::nd
