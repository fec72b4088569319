// SPDX-License-Identifier: Apache-2.0
#include "operator.hpp"

namespace mx::nd {

Params::~Params() = default;

Call* SignatureCache::find(const Key& key) const noexcept {
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  for (size_t i = key.hash_ & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (!slot.call) return nullptr;
    if (slot.hash == key.hash_ && slot.words == key.words_) return slot.call.get();
  }
}

void SignatureCache::insert(const Key& key, Ref<Call> call) {
  if (used_ >= kLimit) clear();
  if (2 * (used_ + 1) > slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  size_t i = key.hash_ & mask;
  while (slots_[i].call) i = (i + 1) & mask;
  slots_[i] = {key.hash_, key.words_, std::move(call)};
  ++used_;
}

void SignatureCache::grow() {
  std::vector<Slot> old(slots_.empty() ? 8 : 2 * slots_.size());
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (Slot& slot : old) {
    if (!slot.call) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].call) i = (i + 1) & mask;
    slots_[i] = std::move(slot);
  }
}

void SignatureCache::clear() noexcept {
  slots_.clear();
  used_ = 0;
}

Call& Operator::call(const Signature& signature) {
  static thread_local SignatureCache::Key key;
  key.clear();
  key.add(signature.params->key);
  const uint64_t train = train_sensitive && signature.is_train ? 1 : 0;
  key.add((uint64_t{signature.n_inputs} << 33) | (uint64_t{signature.n_outputs} << 1) | train);
  key.add((static_cast<uint64_t>(static_cast<uint32_t>(signature.context.type)) << 32) |
          static_cast<uint32_t>(signature.context.id));
  for (uint32_t i = 0; i < signature.n_inputs; ++i) key.add(*signature.inputs[i]);
  for (uint32_t i = 0; i < signature.n_outputs; ++i) key.add(*signature.outputs[i]);
  if (Call* found = cache.find(key)) return *found;
  const SignatureCache::Key mine = key;  // preparing may invoke operators on this thread
  Ref<Call> made = prepare(signature);
  if (Call* found = cache.find(mine)) return *found;
  Call& call = *made;
  cache.insert(mine, std::move(made));
  return call;
}

const Gradient& Operator::gradient(Params& params) {
  if (params.gradient == nullptr) {
    std::unique_ptr<Gradient> made = make_gradient(params);
    if (params.gradient == nullptr) params.gradient = std::move(made);
  }
  return *params.gradient;
}

}  // namespace mx::nd
