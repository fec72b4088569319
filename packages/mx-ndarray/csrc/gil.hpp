// SPDX-License-Identifier: Apache-2.0
//
// Taking and leaving the interpreter's lock, also while the interpreter ends: CPython up to 3.13
// ends a thread that then asks for the lock by unwinding its stack, which C++ must not finish.
#pragma once

#include "mx_core/python.hpp"

#include <unistd.h>

namespace mx::nd {

// The process is ending and this thread may not run Python again; it goes with the process.
[[noreturn]] inline void rest_in_peace() noexcept {
  for (;;) pause();
}

inline void restore_thread(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    rest_in_peace();
  }
}

// Without the lock for the lifetime of the object.  GIL held at construction.
class Released {
 public:
  Released() noexcept : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() { restore_thread(state_); }

 private:
  PyThreadState* state_;
};

// With the lock for the lifetime of the object, on any thread.
class Gil {
 public:
  Gil() noexcept {
    try {
      state_ = PyGILState_Ensure();
    } catch (...) {
      rest_in_peace();
    }
  }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;
  ~Gil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace mx::nd
