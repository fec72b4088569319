// SPDX-License-Identifier: Apache-2.0
//
// The common cases of `x[i]`, `x[a:b]` and `x.reshape(shape)`; everything else is decided in Python.
#include "bindings.hpp"

namespace mx::nd {
namespace {

// Views of recorded arrays are recorded, which Python does.
bool is_plain(const PyArray* self) noexcept { return !mode().recording || self->node == nullptr; }

PyObject* rows(Array& array, int64_t first, int64_t count, bool keep_axis) {
  const Shape& shape = array.shape();
  const int64_t n = shape[0];
  const size_t row = n == 0 ? 0 : array.bytes() / static_cast<size_t>(n);
  int64_t dims[MX_MAX_NDIM];
  std::copy(shape.data(), shape.data() + shape.ndim(), dims);
  dims[0] = count;
  const bool drop = !keep_axis && shape.ndim() > 1;  // a single element keeps one axis
  return wrap({array.view(static_cast<size_t>(first) * row, array.dtype(),
                          drop ? Shape(shape.ndim() - 1, dims + 1) : Shape(shape.ndim(), dims)),
               nullptr, 0});
}

PyObject* row(Array& array, PyObject* key) {
  const int64_t n = array.shape()[0];
  int overflow = 0;
  int64_t index = PyLong_AsLongLongAndOverflow(key, &overflow);
  if (overflow != 0 || index < -n || index >= n) {
    throw Error(MX_ERROR_INDEX, "[NDArray] index " + std::string(py::str(py::handle(key))) +
                                    " is out of bounds for axis 0 with size " + std::to_string(n));
  }
  if (index < 0) index += n;
  return rows(array, index, 1, false);
}

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

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  return protect([&]() -> PyObject* {
    Array& array = *as_array(self)->array;
    const bool integer = PyLong_CheckExact(key) != 0;
    if ((integer || PySlice_Check(key) != 0) && is_plain(as_array(self))) {
      wait_for_shape(array);
      if (array.shape().ndim() > 0) {
        if (integer) return row(array, key);
        Py_ssize_t start = 0, stop = 0, step = 0;
        if (PySlice_Unpack(key, &start, &stop, &step) != 0) throw PythonErrorSet{};
        const Py_ssize_t count = PySlice_AdjustIndices(array.shape()[0], &start, &stop, step);
        if (step == 1) return rows(array, count == 0 ? 0 : start, count, true);
      }
    }
    return py::object(hooks().get_item(py::handle(self), py::handle(key))).release().ptr();
  });
}

PyObject* reshape(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) noexcept {
  return protect([&]() -> PyObject* {
    Array& array = *as_array(self)->array;
    if (names == nullptr && is_plain(as_array(self))) {
      wait_for_shape(array);
      const bool nested = n == 1 && (PyTuple_CheckExact(args[0]) != 0 || PyList_CheckExact(args[0]) != 0);
      PyObject* const* items = nested ? PySequence_Fast_ITEMS(args[0]) : args;
      const Py_ssize_t count = nested ? PySequence_Fast_GET_SIZE(args[0]) : n;
      int64_t dims[MX_MAX_NDIM];
      if (count > 0 && plain_target(items, count, array.size(), dims)) {
        return wrap({array.view(0, array.dtype(), Shape(static_cast<int32_t>(count), dims)), nullptr,
                     0});
      }
    }
    py::tuple positional(n);
    for (Py_ssize_t i = 0; i < n; ++i) positional[i] = py::handle(args[i]);
    py::dict named;
    const Py_ssize_t n_names = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < n_names; ++i) {
      named[py::handle(PyTuple_GET_ITEM(names, i))] = py::handle(args[n + i]);
    }
    return py::object(hooks().reshape(py::handle(self), positional, **named)).release().ptr();
  });
}

}  // namespace mx::nd
