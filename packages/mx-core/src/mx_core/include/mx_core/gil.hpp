// SPDX-License-Identifier: Apache-2.0
//
// Taking and leaving the interpreter's lock, also while the interpreter ends.  Plain CPython API.
//
// CPython up to 3.13 ends a thread that asks for the lock during finalisation by unwinding its stack
// (pthread_exit).  C++ must not finish that: a destructor would run Python, and a noexcept function
// would abort the process.  So whoever is refused the lock is parked, and goes with the process.
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <cxxabi.h>
#include <unistd.h>

namespace mx {

// The process is ending and this thread may not run Python again; it goes with the process.
[[noreturn]] inline void park_forever() noexcept {
  for (;;) ::pause();
}

// Whether the interpreter is ending or has ended: Python code must not run on this thread.
inline bool interpreter_ends() noexcept {
  if (Py_IsInitialized() == 0) return true;
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Runs `body`, which runs Python code.  A thread that comes back for the lock while the interpreter ends
// does not return from it: its stack must stay as it is, because destructors would touch Python.
template <class Body>
auto parking_if_ended(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    park_forever();
  }
}

// PyEval_RestoreThread that never returns by unwinding.
inline void restore_thread(PyThreadState* state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    park_forever();
  }
}

// Without the lock for the lifetime of the object.  GIL held at construction.
class GilRelease {
 public:
  GilRelease() noexcept : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() { restore_thread(state_); }

 private:
  PyThreadState* state_;
};

// With the lock for the lifetime of the object, on any thread.
class GilAcquire {
 public:
  GilAcquire() noexcept {
    try {
      state_ = PyGILState_Ensure();
    } catch (...) {
      park_forever();
    }
  }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;
  ~GilAcquire() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace mx
