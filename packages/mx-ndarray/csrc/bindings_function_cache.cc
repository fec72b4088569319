// SPDX-License-Identifier: Apache-2.0
#include "bindings_function_cache.hpp"

namespace mx::nd {
namespace {

bool is_number(PyObject* value) noexcept {
  return PyFloat_CheckExact(value) != 0 || PyLong_CheckExact(value) != 0;
}

// Values of these types are equal when they print alike; others are parsed every time.
bool is_comparable(PyObject* value) noexcept {
  if (is_number(value) || PyBool_Check(value) != 0 || PyUnicode_CheckExact(value) != 0 ||
      value == Py_None || PyType_Check(value) != 0) {
    return true;
  }
  if (PyTuple_CheckExact(value) == 0 && PyList_CheckExact(value) == 0) {
    return std::strcmp(Py_TYPE(value)->tp_name, "Context") == 0;
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
  PyObject** items = PySequence_Fast_ITEMS(value);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (PyTuple_CheckExact(items[i]) != 0 || PyList_CheckExact(items[i]) != 0 ||
        !is_comparable(items[i])) {
      return false;
    }
  }
  return true;
}

// 1 and True and 1.0 are different parameters.
bool same(PyObject* a, PyObject* b) noexcept {
  if (a == b) return PyList_CheckExact(a) == 0;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyTuple_CheckExact(a) != 0 || PyList_CheckExact(a) != 0) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(a);
    if (n != PySequence_Fast_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (!same(PySequence_Fast_GET_ITEM(a, i), PySequence_Fast_GET_ITEM(b, i))) return false;
    }
    return true;
  }
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool same_names(PyObject* a, PyObject* b) noexcept {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  const Py_ssize_t n = PyTuple_GET_SIZE(a);
  if (n != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i)) return false;
  }
  return true;
}

}  // namespace

bool CallSites::matches(const Site& site, const Arguments& arguments, bool* exact,
                        std::vector<double>* scalars) const {
  if (site.n_positional != arguments.n_positional || site.values.size() != arguments.size() ||
      !same_names(site.names.ptr(), arguments.names)) {
    return false;
  }
  *exact = true;
  for (size_t i = 0; i < site.values.size(); ++i) {
    PyObject* known = site.values[i].ptr();
    PyObject* value = arguments.values[i];
    const bool out = site.bound.out == static_cast<int32_t>(i);
    if (known == nullptr) {
      if (!is_array(value) && !(out && value != Py_None)) return false;
      continue;
    }
    if (same(known, value)) continue;
    const int32_t scalar = site.bound.runtime[i];
    if (scalar < 0 || !is_number(value) || !is_number(known)) return false;
    const double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
    if (*exact) *scalars = site.bound.params->scalars;
    *exact = false;
    scalars->at(static_cast<size_t>(scalar)) = number;
  }
  return true;
}

const BoundCall* CallSites::find(const Arguments& arguments, bool* exact,
                                 std::vector<double>* scalars) {
  const Site* close = nullptr;
  for (const auto& site : sites_) {
    bool equal = true;
    std::vector<double> changed;
    if (!matches(*site, arguments, &equal, &changed)) continue;
    if (equal) {
      *exact = true;
      return &site->bound;
    }
    close = site.get();
    *scalars = std::move(changed);
  }
  *exact = false;
  return close == nullptr ? nullptr : &close->bound;
}

void CallSites::insert(const Arguments& arguments, const BoundCall& bound) {
  auto site = std::make_unique<Site>();
  for (size_t i = 0; i < arguments.size(); ++i) {
    PyObject* value = arguments.values[i];
    const bool out = bound.out == static_cast<int32_t>(i);
    if (is_array(value) || (out && value != Py_None)) {
      site->values.emplace_back();
    } else if (!is_comparable(value)) {
      return;
    } else if (PyList_CheckExact(value) != 0) {
      site->values.push_back(py::reinterpret_steal<py::object>(owned(PySequence_List(value))));
    } else {
      site->values.push_back(py::reinterpret_borrow<py::object>(value));
    }
  }
  site->n_positional = arguments.n_positional;
  if (arguments.names != nullptr) {
    site->names = py::reinterpret_borrow<py::object>(arguments.names);
  }
  site->bound = bound;
  if (sites_.size() < kLimit) {
    sites_.push_back(std::move(site));
  } else {
    sites_[next_] = std::move(site);
    next_ = (next_ + 1) % kLimit;
  }
}

}  // namespace mx::nd
