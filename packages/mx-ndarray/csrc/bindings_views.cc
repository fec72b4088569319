// SPDX-License-Identifier: Apache-2.0
//
// The common case of `x.reshape(shape)`; everything else is decided in Python.
#include "bindings.hpp"

namespace mx::nd {
namespace {

// `x.reshape(...)` with sizes, of which one may be -1; false when it is anything else.
bool plain_target(PyObject* const* items, Py_ssize_t n, int64_t size, int64_t* dims) {
  if (n > MX_MAX_NDIM) return false;
  int64_t known = 1;
  Py_ssize_t open = -1;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (PyLong_CheckExact(items[i]) == 0) return false;
    int overflow = 0;
    dims[i] = PyLong_AsLongLongAndOverflow(items[i], &overflow);
    if (overflow != 0) return false;
    if (dims[i] == -1 && open < 0) {
      open = i;
    } else if (dims[i] <= 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      return false;
    }
  }
  if (open >= 0) {
    if (size % known != 0) return false;
    dims[open] = size / known;
    return dims[open] > 0;
  }
  return known == size;
}

}  // namespace

PyObject* reshape(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) noexcept {
  return protect([&]() -> PyObject* {
    Array& array = *as_array(self)->array;
    if (names == nullptr && is_plain(as_array(self))) {
      wait_for_shape(array);
      const bool nested = n == 1 && (PyTuple_CheckExact(args[0]) != 0 || PyList_CheckExact(args[0]) != 0);
      const CriticalSection section(n > 0 ? args[0] : self);  // of a list
      PyObject* const* items = nested ? PySequence_Fast_ITEMS(args[0]) : args;
      const Py_ssize_t count = nested ? PySequence_Fast_GET_SIZE(args[0]) : n;
      int64_t dims[MX_MAX_NDIM];
      if (count > 0 && plain_target(items, count, array.size(), dims)) {
        return wrap({array.view(0, array.dtype(), Shape(static_cast<int32_t>(count), dims)), nullptr,
                     0});
      }
    }
    py::tuple positional(n);
    for (Py_ssize_t i = 0; i < n; ++i) positional[i] = py::reinterpret_borrow<py::object>(args[i]);
    py::dict named;
    const Py_ssize_t n_names = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < n_names; ++i) {
      named[py::handle(PyTuple_GET_ITEM(names, i))] = py::handle(args[n + i]);
    }
    return hooks().reshape.apply(py::make_tuple(py::handle(self), positional), named).release().ptr();
  });
}

}  // namespace mx::nd
