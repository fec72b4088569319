// SPDX-License-Identifier: Apache-2.0
//
// What extension modules need at the border between Python and the tables:
// importing a table from a capsule (with an explained refusal), dropping
// references without the GIL, carrying a Python exception in a failure,
// raising what a failure or an error holds.  Plain CPython API, no pybind11.
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "mx_core/engine.h"
#include "mx_core/failure.hpp"
#include "mx_core/gil.hpp"
#include "mx_core/invoke.h"
#include "mx_core/storage.h"

namespace mx {

// A Python exception is set; catch it at the binding and return NULL.
struct PythonErrorSet {};

// Takes the exception that is set, as an object with its traceback; NULL without one.  A new reference.  GIL held.
inline PyObject* take_exception() noexcept {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr && value != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
}

namespace detail {

inline int raise_pending(void* pending) noexcept {
  auto* error = static_cast<PyObject*>(pending);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return -1;
}

// Has the main thread raise an error when Python next looks for signals; takes the reference.
inline void raise_soon(PyObject* error) noexcept {
  if (Py_AddPendingCall(raise_pending, error) == 0) return;  // which owns it
  PyErr_SetInterrupt();                                      // too many wait
  Py_DECREF(error);
}

// What a function of mx_core.signals says of an error; `unknown` where it cannot be asked.  A handler may be called
// meanwhile, too: what it raises is raised soon.
inline bool said_by_signals(const char* function, PyObject* error, bool unknown) noexcept {
  PyObject* module = PyImport_ImportModule("mx_core.signals");
  PyObject* found = module == nullptr ? nullptr : PyObject_CallMethod(module, function, "O", error);
  Py_XDECREF(module);
  if (found != nullptr) {
    const bool yes = found == Py_True;
    Py_DECREF(found);
    return yes;
  }
  PyObject* raised = take_exception();
  if (raised == nullptr) return unknown;
  const bool own = PyErr_GivenExceptionMatches(raised, PyExc_ImportError) != 0 ||
                   PyErr_GivenExceptionMatches(raised, PyExc_AttributeError) != 0 ||
                   PyErr_GivenExceptionMatches(raised, PyExc_MemoryError) != 0 ||
                   PyErr_GivenExceptionMatches(raised, PyExc_RecursionError) != 0;
  if (own) {
    Py_DECREF(raised);
  } else {
    raise_soon(raised);
  }
  return unknown;
}

// Whether a handler of a signal has raised an exception.  Every exception of a handler written in Python has a
// traceback, most of those that native code drops have none.
inline bool is_of_a_handler(PyObject* error) noexcept {
  if (PyErr_GivenExceptionMatches(error, PyExc_KeyboardInterrupt) != 0) return true;
  PyObject* traceback = PyException_GetTraceback(error);
  Py_XDECREF(traceback);
  if (traceback == nullptr || interpreter_ends()) return false;
  return said_by_signals("is_of_a_handler", error, PyErr_GivenExceptionMatches(error, PyExc_Exception) == 0);
}

// Whether Ctrl-C raises just such an exception.
inline bool is_of_ctrl_c(PyObject* error) noexcept {
  if (reinterpret_cast<PyObject*>(Py_TYPE(error)) != PyExc_KeyboardInterrupt) return false;
  return interpreter_ends() || said_by_signals("is_of_ctrl_c", error, true);
}

}  // namespace detail

// Drops the Python exception that is set where none can be raised.  What a handler of a signal has raised, the main
// thread raises when Python next looks for signals; and Ctrl-C is pressed again, which ends waits, too.  Python code,
// str() and repr() run handlers.  GIL held.
inline void drop_exception() noexcept {
  PyObject* error = take_exception();
  if (error == nullptr) return;
  if (detail::is_of_a_handler(error)) {
    if (!detail::is_of_ctrl_c(error)) return detail::raise_soon(error);
    PyErr_SetInterrupt();
  }
  Py_DECREF(error);
}

// A str of what is meant to be UTF-8; texts of plug-ins need not be, and long ones are cut, in a character perhaps.
// A new reference, or NULL with an exception set.  GIL held.
inline PyObject* text_of(const char* utf8) noexcept {
  return PyUnicode_DecodeUTF8(utf8, static_cast<Py_ssize_t>(std::strlen(utf8)), "replace");
}

// Raises the class that mx_core.errors has for `code`, or what went wrong meanwhile: Ctrl-C, no memory.  A Python
// exception must not be set.
inline void raise_status(int32_t code, const char* message) {
  PyObject* module = PyImport_ImportModule("mx_core.errors");
  PyObject* text = module == nullptr ? nullptr : text_of(message);
  PyObject* error = text == nullptr ? nullptr : PyObject_CallMethod(module, "from_status", "iO", code, text);
  Py_XDECREF(text);
  Py_XDECREF(module);
  if (error == nullptr) {
    if (!interpreter_ends()) return;
    PyErr_Clear();  // mx_core.errors cannot be imported any more
    PyErr_SetString(PyExc_RuntimeError, message);
    return;
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

namespace detail {

// Who brings a table: a package of mx, of which a plug-in may take the place, or plug-ins alone.
inline const char* provider_of(const std::string& capsule_name) {
  if (capsule_name == MX_ENGINE_CAPSULE) return "mx-engine or a plug-in";
  if (capsule_name == MX_STORAGE_CAPSULE || capsule_name == MX_SHARED_CAPSULE) return "mx-storage or a plug-in";
  if (capsule_name == MX_RESOURCE_CAPSULE) return "mx-storage or a plug-in";
  if (capsule_name == MX_INVOKE_CAPSULE) return "mx-ndarray";
  return "a plug-in";
}

}  // namespace detail

// The table or plan in a capsule of a name; an AbiError says what another object is.  `consumer` is for the message.
// GIL held.
inline void* capsule_pointer(PyObject* object, const char* capsule_name, const char* consumer) {
  if (PyCapsule_IsValid(object, capsule_name) != 0) return PyCapsule_GetPointer(object, capsule_name);
  std::string found = std::string("an object of type ") + Py_TYPE(object)->tp_name;
  if (PyCapsule_CheckExact(object)) {
    const char* name = PyCapsule_GetName(object);
    found = name == nullptr ? "a capsule without a name" : std::string("a capsule ") + name;
  }
  const std::string text =
      std::string("[") + consumer + "] expected a capsule " + capsule_name + " of " + detail::provider_of(capsule_name) +
      ", got " + found;
  raise_status(MX_ERROR_ABI, text.c_str());
  throw PythonErrorSet{};
}

namespace detail {

template <class T>
const T* import_at_least(PyObject* capsule, const char* capsule_name, uint16_t major, uint16_t minor,
                         size_t size, const char* consumer) {
  const auto* table = static_cast<const T*>(capsule_pointer(capsule, capsule_name, consumer));
  const mx_table_head& head = table->head;
  if (head.major == major && head.minor >= minor && head.size >= size) return table;
  char text[512];
  std::snprintf(text, sizeof text,
                "[%s] built for interface %s %u.%u (%zu bytes), the installed provider (%s) offers "
                "%u.%u (%u bytes); install versions of mx-core and %s that belong together",
                consumer, capsule_name, major, minor, size, provider_of(capsule_name), head.major,
                head.minor, head.size, consumer);
  raise_status(MX_ERROR_ABI, text);
  throw PythonErrorSet{};
}

}  // namespace detail

// Imports a table that a framework package provides, and refuses one that lacks slots this side was
// built to use.  `consumer` is for the message.  GIL held.
template <class T>
const T* import_table(PyObject* capsule, const char* capsule_name, uint16_t major, uint16_t minor,
                      const char* consumer) {
  return detail::import_at_least<T>(capsule, capsule_name, major, minor, sizeof(T), consumer);
}

// Imports a table that any plug-in may provide: every minor of the major whose size is at least that
// of 1.0.  Ask MX_HAS(table->head.size, ...) before a slot is used that was added later.  GIL held.
template <class T>
const T* import_plugin_table(PyObject* capsule, const char* capsule_name, uint16_t major,
                             size_t size_of_1_0, const char* consumer) {
  return detail::import_at_least<T>(capsule, capsule_name, major, 0, size_of_1_0, consumer);
}

// Drops Python references on any thread, with or without the GIL, at the next moment the main thread
// runs Python code.  While the interpreter ends they are left to the process.
class Reaper {
 public:
  static Reaper& instance() {
    static auto* reaper = new Reaper;  // leaked: threads may outlive static destruction
    // Held over fork(): the child must not find it locked by a thread that it does not have.
    static const int installed = ::pthread_atfork([] { reaper->mutex_.lock(); }, [] { reaper->mutex_.unlock(); },
                                                  [] { reaper->mutex_.unlock(); });
    static_cast<void>(installed);
    return *reaper;
  }
  void drop(PyObject* object) noexcept {
    if (object == nullptr || interpreter_ends()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    try {
      dead_.push_back(object);
    } catch (...) {
      return;  // leaks one reference rather than failing
    }
    // The queue of pending calls may be full; then the next drop tries again.
    if (!scheduled_) scheduled_ = Py_AddPendingCall(&Reaper::drain, this) == 0;
  }

 private:
  static int drain(void* self) {
    auto* reaper = static_cast<Reaper*>(self);
    std::vector<PyObject*> batch;
    {
      std::lock_guard<std::mutex> lock(reaper->mutex_);
      batch.swap(reaper->dead_);
      reaper->scheduled_ = false;
    }
    for (PyObject* object : batch) Py_DECREF(object);
    return 0;
  }
  std::mutex mutex_;
  std::vector<PyObject*> dead_;  // guarded by mutex_
  bool scheduled_ = false;       // guarded by mutex_
};

namespace detail {

inline void release_python(mx_failure* f) noexcept {
  auto* native = reinterpret_cast<NativeFailure*>(f);
  if (native->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Reaper::instance().drop(static_cast<PyObject*>(native->base.payload));
  delete native;
}

}  // namespace detail

// Failures whose exceptions have been raised. The frames that such an exception has passed may hold the arrays that its
// failure marks: a circle that Python's collector does not see. At the next failure, and before Python's collector
// runs, the traceback is dropped of an exception to which these failures have the only references: who holds it keeps
// it, and who asks an array again what it failed of gets the exception without it. GIL held.
class RaisedFailures {
 public:
  static RaisedFailures& instance() {
    static auto* raised = new RaisedFailures;  // leaked: failures may outlive static destruction
    static const int installed = ::pthread_atfork([] { raised->mutex_.lock(); }, [] { raised->mutex_.unlock(); },
                                                  [] { raised->mutex_.unlock(); });
    static_cast<void>(installed);
    return *raised;
  }
  void add(mx_failure* failure) noexcept {
    drop_unreachable();
    if (!collected_.load(std::memory_order_relaxed)) collected_.store(watch_collector(), std::memory_order_relaxed);
    FailureRef oldest;  // goes without the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto same = [failure](const FailureRef& kept) { return kept.get() == failure; };
    if (std::any_of(kept_.begin(), kept_.end(), same)) return;
    try {
      kept_.push_back(FailureRef::retained(failure));
    } catch (...) {
      return;  // the circle stays rather than that this fails
    }
    if (kept_.size() <= kMost) return;
    oldest = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }

 private:
  static PyObject* before_collection(PyObject*, PyObject*) noexcept {
    instance().drop_unreachable();
    Py_RETURN_NONE;
  }
  // Adds a function to gc.callbacks, which are called at the beginning and the end; whether that could be done.
  static bool watch_collector() noexcept {
    static PyMethodDef method{"drop_unreachable_failures", before_collection, METH_VARARGS, nullptr};
    PyObject* collector = PyImport_ImportModule("gc");
    PyObject* callbacks = collector == nullptr ? nullptr : PyObject_GetAttrString(collector, "callbacks");
    PyObject* function = callbacks == nullptr ? nullptr : PyCFunction_New(&method, nullptr);
    const bool added = function != nullptr && PyList_Append(callbacks, function) == 0;
    Py_XDECREF(function);
    Py_XDECREF(callbacks);
    Py_XDECREF(collector);
    if (!added) drop_exception();
    return added;
  }

  static constexpr size_t kMost = 64;  // of those whose exceptions others hold, too

  static PyObject* error_of(const FailureRef& failure) noexcept {
    return static_cast<PyObject*>(failure.get()->payload);
  }
  bool is_unreachable(PyObject* error) const noexcept {
    const auto holds = [error](const FailureRef& kept) { return error_of(kept) == error; };
    return Py_REFCNT(error) <= std::count_if(kept_.begin(), kept_.end(), holds);
  }
  // Takes one that is unreachable out; null when there is none.
  FailureRef take_unreachable() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [this](const FailureRef& kept) { return is_unreachable(error_of(kept)); });
    if (found == kept_.end()) return {};
    FailureRef failure = std::move(*found);
    kept_.erase(found);
    return failure;
  }
  void drop_unreachable() noexcept {
    while (const FailureRef failure = take_unreachable()) PyException_SetTraceback(error_of(failure), Py_None);
  }
  std::mutex mutex_;  // held while no code of Python runs
  std::vector<FailureRef> kept_;  // guarded by mutex_
  std::atomic<bool> collected_{false};  // the collector is watched
};

namespace detail {

// Local variables of calls that have ended: a kernel's hold the memory that its failure marks.
inline void clear_frames(PyObject* error) noexcept {
  PyObject *type = nullptr, *handled = nullptr, *handled_traceback = nullptr;
  PyErr_GetExcInfo(&type, &handled, &handled_traceback);  // whose frames are the caller's
  PyObject* at = error;
  Py_XINCREF(at);
  for (int depth = 0; at != nullptr && at != handled && depth < 16; ++depth) {
    PyObject* traceback = PyException_GetTraceback(at);
    for (auto* entry = reinterpret_cast<PyTracebackObject*>(traceback); entry != nullptr; entry = entry->tb_next) {
      PyObject* generator = PyFrame_GetGenerator(entry->tb_frame);  // a suspended one would be closed
      Py_XDECREF(generator);
      if (generator != nullptr) continue;
      PyObject* cleared = PyObject_CallMethod(reinterpret_cast<PyObject*>(entry->tb_frame), "clear", nullptr);
      if (cleared == nullptr) drop_exception();
      Py_XDECREF(cleared);
    }
    Py_XDECREF(traceback);
    PyObject* context = PyException_GetContext(at);
    Py_DECREF(at);
    at = context;
  }
  Py_XDECREF(at);
  Py_XDECREF(type);
  Py_XDECREF(handled);
  Py_XDECREF(handled_traceback);
}

inline mx_failure* failure_of(PyObject* error) noexcept {
  if (error == nullptr) return make_failure(MX_ERROR_PYTHON, "Python exception");
  PyObject* shown = PyObject_Str(error);
  const char* said = shown == nullptr ? nullptr : PyUnicode_AsUTF8(shown);
  if (said == nullptr) drop_exception();
  mx_failure* failure = nullptr;
  try {
    const std::string text = std::string(Py_TYPE(error)->tp_name) + ": " + (said == nullptr ? "" : said);
    failure = make_failure(MX_ERROR_PYTHON, text.c_str());
  } catch (...) {
    failure = exhausted_failure();
  }
  Py_XDECREF(shown);
  return failure;
}

}  // namespace detail

// Takes the current Python exception, with its traceback, into a failure.  GIL held.
inline mx_failure* take_python_failure() noexcept {
  PyObject* value = take_exception();
  if (value != nullptr) detail::clear_frames(value);
  mx_failure* failure = detail::failure_of(value);
  if (failure->release != detail::release_native) {
    Py_XDECREF(value);
    return failure;
  }
  failure->payload_kind = MX_PAYLOAD_PYTHON;
  failure->payload = value;
  failure->release = detail::release_python;
  return failure;
}

// Adds a note unless the exception has it already (it may be raised several times).  GIL held.
inline void add_note_once(PyObject* error, const char* note) {
  PyObject* text = text_of(note);
  PyObject* notes = PyObject_GetAttrString(error, "__notes__");
  if (notes == nullptr) drop_exception();
  const bool known = text != nullptr && notes != nullptr && PySequence_Contains(notes, text) == 1;
  if (text != nullptr && !known) Py_XDECREF(PyObject_CallMethod(error, "add_note", "O", text));
  if (PyErr_Occurred() != nullptr) drop_exception();
  Py_XDECREF(notes);
  Py_XDECREF(text);
}

// Sets the Python exception a failure stands for: the original object with its traceback, or the
// class of its code; a note names the operation and the line that pushed it.  GIL held; borrows.
inline void raise_failure(mx_failure* failure) {
  PyObject* error = nullptr;
  if (failure->payload_kind == MX_PAYLOAD_PYTHON && failure->payload != nullptr) {
    error = static_cast<PyObject*>(failure->payload);
    Py_INCREF(error);
    RaisedFailures::instance().add(failure);
  } else {
    raise_status(failure->code, failure->message);
    error = take_exception();
    if (error == nullptr) return;
  }
  if (failure->operator_name[0] != '\0') {
    std::string note = std::string("in operator ") + failure->operator_name;
    if (failure->origin[0] != '\0') note += std::string(", pushed at ") + failure->origin;
    add_note_once(error, note.c_str());
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

}  // namespace mx
