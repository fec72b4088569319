// SPDX-License-Identifier: Apache-2.0
//
// Reading a published object without a lock while other threads replace it: hazard pointers (Michael,
// "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects", 2004).  A reader announces the
// object it is about to use; what was replaced is freed when nobody announces it any more.
#pragma once

#include <atomic>

namespace mx::nd {

namespace hazard {

// This thread's announcement.  Threads: its own writes it, all read it.
std::atomic<const void*>& slot() noexcept;
// Calls `destroy(object)` now or when a later object is retired, once no thread announces it.  The
// caller must have unpublished it.  `destroy` runs on a thread that retires, without a lock.
void retire(void* object, void (*destroy)(void*) noexcept) noexcept;

}  // namespace hazard

// The object that `source` publishes stays alive while this does.  One at a time per thread: what is
// done with the object must neither protect another one nor run foreign code.
template <class T>
class Protected {
 public:
  explicit Protected(const std::atomic<T*>& source) noexcept : slot_(hazard::slot()) {
    object_ = source.load(std::memory_order_acquire);
    for (;;) {
      slot_.store(object_, std::memory_order_seq_cst);
      T* again = source.load(std::memory_order_seq_cst);
      if (again == object_) return;
      object_ = again;
    }
  }
  Protected(const Protected&) = delete;
  Protected& operator=(const Protected&) = delete;
  ~Protected() { slot_.store(nullptr, std::memory_order_release); }
  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  std::atomic<const void*>& slot_;
  T* object_;
};

}  // namespace mx::nd
