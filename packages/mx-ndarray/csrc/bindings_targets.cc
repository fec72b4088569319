// SPDX-License-Identifier: Apache-2.0
#include "bindings_targets.hpp"

namespace mx::nd {

void Targets::add(py::object item, const std::string& name) {
  if (!is_array(item.ptr())) expect_array(item.ptr(), ("[" + name + "] out").c_str());
  PyArray* array = as_array(item.ptr());
  if (!array->writable) {
    throw Error(MX_ERROR_VALUE, "[" + name + "] out: the array is not writable");
  }
  if (mode().recording && array->recorded()) {
    throw Error(MX_ERROR, "[" + name +
                              "] cannot assign to an array that is part of a computational graph "
                              "while recording: its gradient would be wrong. Use a new array, or "
                              "assign outside autograd.record() (in-place operators, out= and "
                              "x[...] = y all assign)");
  }
  wait_for_shape(*array->array);
  arrays.push_back(array->array);
  objects.push_back(std::move(item));
}

void Targets::collect(PyObject* out, const std::string& name) {
  if (PyList_Check(out) == 0 && PyTuple_Check(out) == 0) {
    add(py::reinterpret_borrow<py::object>(out), name);
    return;
  }
  // Of a list a copy: waiting for one array lets other threads change it.
  const auto items = py::reinterpret_steal<py::object>(owned(PySequence_Tuple(out)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.ptr()); ++i) {
    add(py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(items.ptr(), i)), name);
  }
}

void Targets::adopt(const std::vector<Value>& results) const noexcept {
  for (size_t i = 0; i < objects.size() && i < results.size(); ++i) {
    if (results[i].node) set_node(as_array(objects[i].ptr()), results[i].node, results[i].index);
  }
}

}  // namespace mx::nd
