// SPDX-License-Identifier: Apache-2.0
#include "common/bindings_common.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kComplex = 13;  // the first of the type codes without loops

void require_fitting(const Shape& shape) {
  int64_t bytes = 16;  // at most an element's
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      throw Error(MX_ERROR_SHAPE, "[mx-operators-cpu] a tensor's size is negative or does not fit");
}

bool read_integer(PyObject* object, int64_t* integer) {
  *integer = PyLong_AsLongLong(object);
  if (*integer != -1 || PyErr_Occurred() == nullptr) return true;
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0 && PyErr_ExceptionMatches(PyExc_OverflowError) == 0)
    throw py::error_already_set();
  PyErr_Clear();
  return false;
}

bool is_sequence(PyObject* object) { return PyTuple_Check(object) != 0 || PyList_Check(object) != 0; }

bool read_shape(PyObject* object, Shape* shape) {
  if (!is_sequence(object)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    int64_t extent = 0;
    if (!read_integer(PySequence_Fast_GET_ITEM(object, i), &extent)) return false;
    shape->push_back(extent);
  }
  return true;
}

py::object attribute(PyObject* object, PyObject* name) {
  auto found = py::reinterpret_steal<py::object>(PyObject_GetAttr(object, name));
  if (!found) throw py::error_already_set();
  return found;
}

bool read_tensor(PyObject* item, Tensors* tensors) {
  Shape shape;
  int64_t dtype = 0, layout = 0;
  if (PyTuple_Check(item) != 0) {
    if (PyTuple_GET_SIZE(item) != 2 || !read_shape(PyTuple_GET_ITEM(item, 0), &shape) ||
        !read_integer(PyTuple_GET_ITEM(item, 1), &dtype))
      return false;
  } else {
    static PyObject* const names[] = {PyUnicode_InternFromString("shape"), PyUnicode_InternFromString("dtype"),
                                      PyUnicode_InternFromString("layout")};
    if (!read_shape(attribute(item, names[0]).ptr(), &shape) ||
        !read_integer(attribute(item, names[1]).ptr(), &dtype) ||
        !read_integer(attribute(item, names[2]).ptr(), &layout))
      return false;
    tensors->plain = tensors->plain && layout == 0 && dtype >= 0 && dtype < kComplex;
  }
  if (dtype < INT32_MIN || dtype > INT32_MAX) return false;
  require_fitting(shape);
  tensors->specs.emplace_back(std::move(shape), static_cast<int32_t>(dtype));
  return true;
}

}  // namespace

std::vector<Spec> specs(const PySpecs& given) {
  std::vector<Spec> made;
  for (const auto& [shape, dtype] : given) {
    require_fitting(shape);
    made.emplace_back(shape, dtype);
  }
  return made;
}

bool read_tensors(PyObject* source, Tensors* tensors) {
  *tensors = {};
  if (!is_sequence(source)) return false;
  tensors->specs.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(source)));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(source); ++i)
    if (!read_tensor(PySequence_Fast_GET_ITEM(source, i), tensors)) return false;
  return true;
}

py::object capsule(PlanPtr plan) {
  mx_plan* raw = plan.get();
  PyObject* made = PyCapsule_New(raw, MX_PLAN_CAPSULE, [](PyObject* self) {
    auto* held = static_cast<mx_plan*>(PyCapsule_GetPointer(self, MX_PLAN_CAPSULE));
    held->release(held);
  });
  if (made == nullptr) throw py::error_already_set();
  static_cast<void>(plan.release());
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace mx::cpu
