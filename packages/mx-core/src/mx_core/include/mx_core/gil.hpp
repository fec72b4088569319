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

// Says of a new module, or NULL, that it needs no GIL; returns it.
inline PyObject* needs_no_gil(PyObject* module) noexcept {
#ifdef Py_GIL_DISABLED
  if (module != nullptr) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}

// CPython's critical section of an object, for the lifetime of this one: on free-threaded builds it is what the lock of
// the interpreter is on others, where it does nothing.  Whoever blocks or leaves the interpreter within it gives it away
// meanwhile, so what it guards is read again afterwards.  GIL held.
class CriticalSection {
 public:
#ifdef Py_GIL_DISABLED
  explicit CriticalSection(PyObject* object) noexcept { PyCriticalSection_Begin(&section_, object); }
  ~CriticalSection() { PyCriticalSection_End(&section_); }
#else
  explicit CriticalSection(PyObject*) noexcept {}
  ~CriticalSection() {}  // not trivial: an object that is only declared is used
#endif
  CriticalSection(const CriticalSection&) = delete;
  CriticalSection& operator=(const CriticalSection&) = delete;

#ifdef Py_GIL_DISABLED
 private:
  PyCriticalSection section_;
#endif
};

}  // namespace mx
