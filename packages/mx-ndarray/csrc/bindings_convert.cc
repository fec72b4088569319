// SPDX-License-Identifier: Apache-2.0
//
// Element types and shapes between Python and native code.
#include <array>

#include "bindings.hpp"

namespace mx::nd {

py::dtype numpy_dtype(int32_t code) {
  static std::array<std::atomic<PyObject*>, MX_COMPLEX128 + 1> known{};  // leaked, for the life of the process
  if (code < 0 || code > MX_COMPLEX128) {
    throw Error(MX_ERROR_DTYPE, "[NDArray] unknown element type code " + std::to_string(code));
  }
  std::atomic<PyObject*>& place = known[static_cast<size_t>(code)];
  if (PyObject* found = place.load(std::memory_order_acquire)) return py::reinterpret_borrow<py::dtype>(found);
  py::object made = py::module_::import("mx_core.dtypes").attr("numpy_dtype")(code);
  PyObject* first = nullptr;
  if (place.compare_exchange_strong(first, made.ptr(), std::memory_order_acq_rel)) made.inc_ref();
  return py::reinterpret_borrow<py::dtype>(place.load(std::memory_order_acquire));
}

py::tuple shape_tuple(const Shape& shape) {
  py::tuple tuple(static_cast<size_t>(shape.ndim()));
  for (int32_t i = 0; i < shape.ndim(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), i, owned(PyLong_FromLongLong(shape[i])));
  }
  return tuple;
}

Shape shape_of(const py::handle& shape) {
  const py::tuple dims(py::reinterpret_borrow<py::object>(shape));
  int64_t local[MX_MAX_NDIM];
  if (dims.size() > MX_MAX_NDIM) {
    throw Error(MX_ERROR_SHAPE, "[NDArray] expected at most " + std::to_string(MX_MAX_NDIM) +
                                    " dimensions, got " + std::to_string(dims.size()));
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const py::object index = py::reinterpret_steal<py::object>(owned(PyNumber_Index(dims[i].ptr())));
    local[i] = PyLong_AsLongLong(index.ptr());
    if (local[i] == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw Error(MX_ERROR_SHAPE,
                  "[NDArray] a dimension has more than 2^63 elements: " + std::string(py::str(dims)));
    }
  }
  return {static_cast<int32_t>(dims.size()), local};
}

}  // namespace mx::nd
