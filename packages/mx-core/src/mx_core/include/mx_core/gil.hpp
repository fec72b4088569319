// SPDX-License-Identifier: Apache-2.0
//
// Taking and leaving the interpreter's lock, also while the interpreter ends: a thread that is refused the
// lock then is parked, and goes with the process.  Plain CPython API.
#pragma once

#include "mx_core/python_end.hpp"

namespace mx {

// Without the lock for the lifetime of the object.  GIL held at construction.
class GilRelease {
 public:
  GilRelease() noexcept : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

// With the lock for the lifetime of the object, on any thread.
class GilAcquire {
 public:
  GilAcquire() noexcept : state_(PyGILState_Ensure()) {}
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;
  ~GilAcquire() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace mx
