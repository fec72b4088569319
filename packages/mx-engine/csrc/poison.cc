// SPDX-License-Identifier: Apache-2.0
#include "poison.hpp"

#include <algorithm>
#include <cstdio>

namespace mx::engine {

Poison* FailureLedger::enter(FailureRef failure, const char* name, const char* origin) noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  name_failure(failure.get(), name, origin);
  try {
    auto* poison = new Poison(std::move(failure), generation_.load(std::memory_order_relaxed));
    if (kept_.size() < kKept) {
      try {
        kept_.push_back(poison);
        retain(poison);
        return poison;
      } catch (...) {
      }
    }
    poison->counted = true;
    ++counted_;
    return poison;
  } catch (...) {
    ++counted_;
    return nullptr;
  }
}

void FailureLedger::forget(Poison* poison) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  if (poison->counted && poison->generation == generation_.load(std::memory_order_relaxed)) --counted_;
  const auto found = std::find(kept_.begin(), kept_.end(), poison);
  if (found == kept_.end()) return;
  kept_.erase(found);
  lock.unlock();
  release(poison);
}

FailureRef FailureLedger::deliver(Poison* poison) noexcept {
  const bool first =
      active(poison) && !poison->delivered.exchange(true, std::memory_order_acq_rel);
  if (first) forget(poison);
  return first || (poison != nullptr && (sticky_ || poison->lasting)) ? poison->failure : FailureRef();
}

FailureRef FailureLedger::deliver_all() noexcept {
  FailureRef first;
  std::vector<Poison*> batch;
  size_t counted = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    batch.swap(kept_);
    counted = std::exchange(counted_, 0);
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
  // References are dropped outside the lock: a failure may own an exception of another language.
  for (Poison* poison : batch) {
    const bool seen = poison->delivered.exchange(true, std::memory_order_acq_rel);
    if (!seen && !first) first = poison->failure;
    release(poison);
  }
  if (!first && counted > 0) {
    first = FailureRef(make_failure(MX_ERROR, "operations failed; their failures were not kept"));
  }
  return first;
}

size_t FailureLedger::unobserved(std::vector<FailureRef>* first) const {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t count = counted_;
  for (Poison* poison : kept_) {
    if (poison->delivered.load(std::memory_order_acquire)) continue;
    ++count;
    if (first != nullptr) first->push_back(poison->failure);
  }
  return count;
}

}  // namespace mx::engine
