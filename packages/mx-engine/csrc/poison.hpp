// SPDX-License-Identifier: Apache-2.0
//
// A failure as the variables see it.  Every variable an operation failed to write shares one
// Poison; delivering it once clears it for all of them, while the mark itself stays on each
// variable until a later write completes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "mx_core/failure.hpp"

namespace mx::engine {

struct Poison {
  Poison(FailureRef cause, uint64_t failure_generation)
      : failure(std::move(cause)), generation(failure_generation) {}
  // Lasting: whoever asks gets the failure, and a generation does not end it.
  explicit Poison(FailureRef cause) : failure(std::move(cause)), lasting(true) {}
  const FailureRef failure;
  const bool lasting = false;
  const uint64_t generation = 0;  // of the ledger when the operation failed
  bool counted = false;  // by the ledger, which does not keep it; guarded by its mutex
  std::atomic<bool> delivered{false};
  std::atomic<bool> inherited{false};  // something was skipped, or failed after its launch, for it
  std::atomic<uint32_t> references{1};
};

inline Poison* retain(Poison* poison) noexcept {
  if (poison != nullptr) poison->references.fetch_add(1, std::memory_order_relaxed);
  return poison;
}
inline void release(Poison* poison) noexcept {
  if (poison != nullptr && poison->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete poison;
  }
}

// The failures of one engine that nobody has seen yet, in the order they happened.
// Threads: any.
class FailureLedger {
 public:
  // `sticky`: a failure is delivered to everybody who asks, not to the first alone.
  explicit FailureLedger(bool sticky) noexcept : sticky_(sticky) {}
  FailureLedger(const FailureLedger&) = delete;
  FailureLedger& operator=(const FailureLedger&) = delete;
  ~FailureLedger() {
    for (Poison* poison : kept_) release(poison);
  }

  // Names the operation in `failure`, unless an earlier one is named there already, and enters it.
  // NULL when memory is exhausted; the failure is then counted only.
  Poison* enter(FailureRef failure, const char* name, const char* origin) noexcept;

  // Whether an operation that touches the poisoned variable must be skipped.
  bool active(const Poison* poison) const noexcept {
    if (poison == nullptr || poison->lasting) return poison != nullptr;
    return !poison->delivered.load(std::memory_order_acquire) &&
           poison->generation == generation_.load(std::memory_order_acquire);
  }

  // The failure, for the one caller who is first to ask; NULL for everybody else, unless it is
  // sticky.
  FailureRef deliver(Poison* poison) noexcept;
  // The first failure nobody has seen; all of them count as seen then.
  FailureRef deliver_all() noexcept;

  // Failures nobody has seen: how many, and the texts of the first of them.
  size_t unobserved(std::vector<FailureRef>* first) const;

  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  static constexpr size_t kKept = 1024;  // failures kept with their text; the others are counted

  void forget(Poison* poison) noexcept;

  const bool sticky_;
  mutable std::mutex mutex_;
  std::vector<Poison*> kept_;  // guarded by mutex_; a reference each
  size_t counted_ = 0;         // guarded by mutex_: failures that are not kept and that nobody has seen
  std::atomic<uint64_t> generation_{0};
};

}  // namespace mx::engine
