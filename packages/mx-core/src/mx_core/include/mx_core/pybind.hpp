// SPDX-License-Identifier: Apache-2.0
//
// What every extension module that is written with pybind11 needs: contexts from Python, and C++
// exceptions as the exceptions of mx_core.errors.
//
// The functions are compiled into whoever includes the header; two packages of one process may have
// different versions of them.
#pragma once

#include "mx_core/python.hpp"

#include <pybind11/pybind11.h>

#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "mx_core/gil.hpp"

namespace mx {

// An mx_core.context.Context; `none` for None.
inline mx_context context_of(pybind11::handle context, mx_context none = {MX_CPU, 0}) {
  if (context.is_none()) return none;
  return {context.attr("device_typeid").cast<int32_t>(), context.attr("device_id").cast<int32_t>()};
}

namespace detail {

inline void raise_exception() {
  try {
    throw;
  } catch (const PythonErrorSet&) {
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const Error& error) {
    raise_status(error.code(), error.what());
  } catch (const FailureError& error) {
    raise_failure(error.failure.get());
  } catch (const std::bad_alloc&) {
    raise_status(MX_ERROR_MEMORY, "out of host memory");
  } catch (const pybind11::builtin_exception& error) {
    error.set_error();
  } catch (const std::exception& error) {
    raise_status(MX_ERROR, error.what());
  } catch (...) {
    raise_status(MX_ERROR, "unknown C++ exception");
  }
  if (PyErr_Occurred() == nullptr) raise_status(MX_ERROR, "an error was lost");
}

}  // namespace detail

// Raises in Python what is in flight in C++; returns NULL.  To be called in a catch-all.  GIL held.
inline PyObject* raise_current() noexcept {
  detail::raise_exception();
  return nullptr;
}

// For functions of the CPython API: runs `body`, which returns a new reference or throws.
template <class Body>
PyObject* protect(Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return raise_current();
  }
}

// For functions that pybind11 calls: runs `body` and raises what it throws.
template <class Body>
auto translated(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    raise_current();
  }
  throw pybind11::error_already_set();
}

// The exception that `raise_failure` would raise.
inline pybind11::object exception_of(mx_failure* failure) {
  raise_failure(failure);
  return pybind11::reinterpret_steal<pybind11::object>(take_exception());
}

// `text_of`, as pybind11 has it.
inline pybind11::str decoded(const char* utf8) {
  auto text = pybind11::reinterpret_steal<pybind11::str>(text_of(utf8));
  if (!text) throw pybind11::error_already_set();
  return text;
}

// For a whole module: from now on pybind11 raises mx::Error as the exception of its code.
inline void translate_errors() {
  pybind11::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      raise_status(error.code(), error.what());
    }
  });
}

// Raises the exception for a status that is not MX_OK.
inline void raise_unless_ok(int32_t status, const mx_error& error) {
  if (status == MX_OK) return;
  raise_status(status, said(status, error.message).c_str());
  throw pybind11::error_already_set();
}

}  // namespace mx
