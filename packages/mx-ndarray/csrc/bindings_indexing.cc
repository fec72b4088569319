// SPDX-License-Identifier: Apache-2.0
//
// The common cases of `x[key]` and `x[key] = number`: integers, then perhaps a slice, so that the region
// is one run of memory; others are in bindings_parts.cc.  Everything else is decided in Python.
#include "bindings_parts.hpp"
#include "bindings_shaped.hpp"

namespace mx::nd {
namespace {

bool is_full_slice(PyObject* item) noexcept {
  if (item == Py_Ellipsis) return true;  // it is the last one wherever this is asked
  if (PySlice_Check(item) == 0) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(item);
  return slice->start == Py_None && slice->stop == Py_None && slice->step == Py_None;
}

// A region that is one run of memory.
struct Region {
  int64_t offset = 0;  // elements
  int32_t ndim = 0;
  int64_t dims[MX_MAX_NDIM];
};

// Resolves a key; false for those that Python should judge.
bool resolve(const Shape& shape, PyObject* key, Region* region) {
  PyObject* single[] = {key};
  PyObject* const* items = single;
  Py_ssize_t n = 1;
  if (PyTuple_CheckExact(key) != 0) {
    items = PySequence_Fast_ITEMS(key);
    n = PyTuple_GET_SIZE(key);
  }
  if (n > 0 && items[n - 1] == Py_Ellipsis) --n;
  if (shape.ndim() == 0 || n > shape.ndim()) return false;
  int64_t below = 1;  // elements of one step along the axis
  for (int32_t axis = 0; axis < shape.ndim(); ++axis) below *= shape[axis];
  int32_t axis = 0;
  for (; axis < n && PyLong_CheckExact(items[axis]) != 0; ++axis) {
    int overflow = 0;
    int64_t index = PyLong_AsLongLongAndOverflow(items[axis], &overflow);
    if (overflow != 0 || index < -shape[axis] || index >= shape[axis]) return false;
    below /= shape[axis];
    region->offset += (index < 0 ? index + shape[axis] : index) * below;
  }
  if (axis < n && PySlice_Check(items[axis]) != 0) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(items[axis], &start, &stop, &step) != 0) throw PythonErrorSet{};
    const Py_ssize_t count = PySlice_AdjustIndices(shape[axis], &start, &stop, step);
    if (step != 1) return false;
    if (shape[axis] != 0) below /= shape[axis];
    if (count != 0) region->offset += start * below;
    region->dims[region->ndim++] = count;
    ++axis;
  }
  for (; axis < shape.ndim(); ++axis) {
    if (axis < n && !is_full_slice(items[axis])) return false;
    region->dims[region->ndim++] = shape[axis];
  }
  if (region->ndim == 0) region->dims[region->ndim++] = 1;  // a single element keeps one axis
  return true;
}

Ref<Array> view_of(Array& array, const Region& region) {
  Shape shape(region.ndim, region.dims);
  const bool nothing = byte_size(shape, array.dtype()) == 0;
  const size_t offset = nothing ? 0 : static_cast<size_t>(region.offset) * item_size(array.dtype());
  return array.view(offset, array.dtype(), std::move(shape));
}

// The number that an assignment writes, if a run-time scalar holds it.
bool plain_number(PyObject* value, double* number) noexcept {
  if (PyFloat_CheckExact(value) != 0) {
    *number = PyFloat_AS_DOUBLE(value);
    return true;
  }
  if (PyLong_CheckExact(value) == 0 && PyBool_Check(value) == 0) return false;
  constexpr int64_t kExact = int64_t{1} << 53;
  int overflow = 0;
  const int64_t integer = PyLong_AsLongLongAndOverflow(value, &overflow);
  *number = static_cast<double>(integer);
  return overflow == 0 && integer <= kExact && integer >= -kExact;
}

// Tuples may hold objects whose __index__ is Python.
bool runs_no_python(PyObject* key) noexcept {
  if (PyLong_CheckExact(key) != 0 || PySlice_Check(key) != 0 || key == Py_Ellipsis) return true;
  if (PyTuple_CheckExact(key) == 0) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    if (PyLong_CheckExact(item) == 0 && PySlice_Check(item) == 0 && item != Py_Ellipsis) return false;
  }
  return true;
}

}  // namespace

PyObject* subscript(PyObject* self, PyObject* key) noexcept {
  return protect([&]() -> PyObject* {
    if (runs_no_python(key)) {
      Array& array = *as_array(self)->array;
      wait_for_shape(array);
      Region region;
      if (is_plain(as_array(self)) && resolve(array.shape(), key, &region)) {
        return wrap({view_of(array, region), nullptr, 0});
      }
      if (PyObject* part = take_part(as_array(self), key)) return part;
    }
    return hooks().get_item(py::handle(self), py::handle(key)).release().ptr();
  });
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) noexcept {
  PyObject* done = protect([&]() -> PyObject* {
    if (value == nullptr) {
      PyErr_Format(PyExc_TypeError, "'%s' object doesn't support item deletion", Py_TYPE(self)->tp_name);
      throw PythonErrorSet{};
    }
    double number = 0;
    if (as_array(self)->writable && plain_number(value, &number) && runs_no_python(key) &&
        is_plain(as_array(self))) {
      Array& array = *as_array(self)->array;
      wait_for_shape(array);
      Region region;
      if (resolve(array.shape(), key, &region)) {
        const Ref<Array> view = view_of(array, region);
        if (view->bytes() != 0) fill_shaped(Shaped::kFull, *view, &number);
        Py_RETURN_NONE;
      }
      if (fill_part(as_array(self), key, number)) Py_RETURN_NONE;
    }
    return hooks().set_item(py::handle(self), py::handle(key), py::handle(value)).release().ptr();
  });
  Py_XDECREF(done);
  return done == nullptr ? -1 : 0;
}

}  // namespace mx::nd
