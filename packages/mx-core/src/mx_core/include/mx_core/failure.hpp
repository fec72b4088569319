// SPDX-License-Identifier: Apache-2.0
//
// Header-only C++17 comfort over mx_error and mx_failure.  No Python here;
// failures that carry a Python exception are made in mx_core/python.hpp.
#pragma once

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "mx_core/abi.h"

namespace mx {

// A C++ exception that knows its mx_status; crosses a boundary as mx_error or mx_failure.
class Error : public std::runtime_error {
 public:
  Error(mx_status code, const std::string& message) : std::runtime_error(message), code_(code) {}
  mx_status code() const noexcept { return code_; }

 private:
  mx_status code_;
};

// Writes `message` into `error` (which may be null) and returns `code`.
inline int32_t set_error(mx_error* error, mx_status code, const char* message) noexcept {
  if (error != nullptr) {
    error->code = code;
    std::snprintf(error->message, sizeof error->message, "%s", message);
  }
  return code;
}

// Runs `body` and turns whatever it throws into `error`; returns the status.
template <class Body>
int32_t guarded(mx_error* error, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return MX_OK;
  } catch (const Error& e) {
    return set_error(error, e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return set_error(error, MX_ERROR_MEMORY, "out of host memory");
  } catch (const std::exception& e) {
    return set_error(error, MX_ERROR, e.what());
  } catch (...) {
    return set_error(error, MX_ERROR, "unknown C++ exception");
  }
}

// The message, or the status where a table of C says nothing else.
inline std::string said(int32_t status, const char* message) {
  return message[0] != '\0' ? message : "status " + std::to_string(status) + " without a message";
}

// Throws what `status` and `error` say, unless it is MX_OK.
inline void check(int32_t status, const mx_error& error) {
  if (status != MX_OK) throw Error(static_cast<mx_status>(status), said(status, error.message));
}

namespace detail {

struct NativeFailure {
  mx_failure base{};  // first: a NativeFailure* is an mx_failure*
  std::atomic<uint32_t> references{1};
  std::string text;
};

inline void retain_native(mx_failure* f) noexcept {
  reinterpret_cast<NativeFailure*>(f)->references.fetch_add(1, std::memory_order_relaxed);
}
inline void release_native(mx_failure* f) noexcept {
  auto* native = reinterpret_cast<NativeFailure*>(f);
  if (native->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete native;
}

}  // namespace detail

namespace detail {

// What fails when there is no memory for a failure.  Shared, so nobody may name an operation in it.
inline mx_failure* exhausted_failure() noexcept {
  static mx_failure exhausted = [] {
    mx_failure f{};
    f.head = {sizeof(mx_failure), MX_FAILURE_MAJOR, MX_FAILURE_MINOR};
    f.code = MX_ERROR_MEMORY;
    f.payload_kind = MX_PAYLOAD_SHARED;
    f.message = "out of host memory";
    f.retain = [](mx_failure*) {};
    f.release = [](mx_failure*) {};
    return f;
  }();
  return &exhausted;
}

}  // namespace detail

// A new failure with one reference; the shared one when memory is exhausted.
inline mx_failure* make_failure(int32_t code, const char* message) noexcept {
  try {
    auto* native = new detail::NativeFailure;
    native->text = said(code, message);
    native->base.head = {sizeof(mx_failure), MX_FAILURE_MAJOR, MX_FAILURE_MINOR};
    native->base.code = code;
    native->base.message = native->text.c_str();
    native->base.retain = detail::retain_native;
    native->base.release = detail::release_native;
    return &native->base;
  } catch (...) {
    return detail::exhausted_failure();
  }
}

// Writes which operation failed and where it was pushed into a failure that names none yet.  Only for
// one who alone holds the failure, or under a lock of all who do; a shared failure stays without a name.
inline void name_failure(mx_failure* failure, const char* name, const char* origin) noexcept {
  if (name == nullptr || failure->operator_name[0] != '\0') return;
  if (failure->payload_kind == MX_PAYLOAD_SHARED) return;
  std::snprintf(failure->operator_name, sizeof failure->operator_name, "%s", name);
  std::snprintf(failure->origin, sizeof failure->origin, "%s", origin == nullptr ? "" : origin);
}

// Runs the body of an operation; what it throws becomes the returned failure.
template <class Body>
mx_failure* failing(Body&& body) noexcept {
  mx_error error{};
  const int32_t status = guarded(&error, std::forward<Body>(body));
  return status == MX_OK ? nullptr : make_failure(status, error.message);
}

// An owned reference to a failure.
class FailureRef {
 public:
  FailureRef() = default;
  explicit FailureRef(mx_failure* adopted) noexcept : failure_(adopted) {}
  FailureRef(const FailureRef& other) noexcept : failure_(other.failure_) {
    if (failure_ != nullptr) failure_->retain(failure_);
  }
  FailureRef(FailureRef&& other) noexcept : failure_(std::exchange(other.failure_, nullptr)) {}
  FailureRef& operator=(FailureRef other) noexcept {
    std::swap(failure_, other.failure_);
    return *this;
  }
  ~FailureRef() {
    if (failure_ != nullptr) failure_->release(failure_);
  }
  static FailureRef retained(mx_failure* borrowed) noexcept {
    if (borrowed != nullptr) borrowed->retain(borrowed);
    return FailureRef(borrowed);
  }
  mx_failure* get() const noexcept { return failure_; }
  mx_failure* release() noexcept { return std::exchange(failure_, nullptr); }
  explicit operator bool() const noexcept { return failure_ != nullptr; }

 private:
  mx_failure* failure_ = nullptr;
};

// A failure as a C++ exception: what a naive engine's push returned.
struct FailureError {
  FailureRef failure;
};

}  // namespace mx
