// SPDX-License-Identifier: Apache-2.0
//
// Intrusive reference counting: the objects cross C tables as plain pointers.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace mx::nd {

// A base with an atomic count that starts at one.  Derived classes say what happens at zero.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void add_reference() const noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  // True when the last reference has gone.
  bool drop_reference() const noexcept { return references_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  mutable std::atomic<uint32_t> references_{1};
};

// An owned reference to a T with `void retain()` and `void release()`.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}  // NOLINT: a null reference reads naturally
  static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  static Ref share(T* object) noexcept {
    if (object != nullptr) object->retain();
    return adopt(object);
  }
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  T* get() const noexcept { return object_; }
  T* detach() noexcept { return std::exchange(object_, nullptr); }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace mx::nd
