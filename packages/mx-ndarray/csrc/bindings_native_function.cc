// SPDX-License-Identifier: Apache-2.0
#include "bindings_native_function.hpp"

#include "bindings_function_type.hpp"

namespace mx::nd {
namespace {

struct NativeFunction {
  FunctionHead head;
  PyObject* held;  // Owns: the Python function, which serves every call that is not usual
  const NativeCall* call;
  PyObject* names[kMostParameters];  // Owns: interned

  static PyObject* create(PyTypeObject* type, PyObject* python);
  void destroy() noexcept {
    for (PyObject*& name : names) Py_CLEAR(name);
  }
  PyObject* repr() const noexcept { return PyObject_Repr(held); }
};

// Sorts the arguments; false for calls that Python should judge.
bool bind(const NativeFunction& self, PyObject* const* values, size_t n_positional, PyObject* names,
          Bound& bound) {
  size_t n = 0;
  while (n < kMostParameters && self.names[n] != nullptr) ++n;
  if (n_positional > n) return false;
  for (size_t i = 0; i < kMostParameters; ++i) bound[i] = i < n_positional ? values[i] : nullptr;
  const Py_ssize_t n_names = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t k = 0; k < n_names; ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    size_t i = n_positional;
    while (i < n && self.names[i] != name) ++i;  // names in source code are interned
    if (i == n || bound[i] != nullptr) return false;
    bound[i] = values[n_positional + static_cast<size_t>(k)];
  }
  return true;
}

PyObject* native_function_vectorcall(PyObject* callable, PyObject* const* values, size_t flags,
                                     PyObject* names) {
  auto* self = reinterpret_cast<NativeFunction*>(callable);
  return protect([&]() -> PyObject* {
    Bound bound;
    if (bind(*self, values, static_cast<size_t>(PyVectorcall_NARGS(flags)), names, bound)) {
      if (PyObject* served = self->call->serve(bound)) return served;
    }
    return owned(PyObject_Vectorcall(self->held, values, flags, names));
  });
}

// Pickled as functions are: by name.
PyObject* function_reduce(PyObject* object, PyObject*) {
  return PyObject_GetAttrString(reinterpret_cast<NativeFunction*>(object)->held, "__qualname__");
}

PyMethodDef function_methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS, "For pickle."}, {nullptr, nullptr, 0, nullptr}};

PyObject* NativeFunction::create(PyTypeObject* type, PyObject* python) {
  const auto name = py::handle(python).attr("__name__").cast<std::string>();
  const NativeCall* call = kNativeCalls;
  while (call->name != nullptr && name != call->name) ++call;
  if (call->name == nullptr) throw Error(MX_ERROR_VALUE, "nothing serves '" + name + "' natively");
  PyObject* object = owned(type->tp_alloc(type, 0));
  auto made = py::reinterpret_steal<py::object>(object);
  auto* self = reinterpret_cast<NativeFunction*>(object);
  self->head.vectorcall = native_function_vectorcall;
  Py_INCREF(python);
  self->held = python;
  self->call = call;
  for (size_t i = 0; i < kMostParameters && call->parameters[i] != nullptr; ++i) {
    self->names[i] = owned(PyUnicode_InternFromString(call->parameters[i]));
  }
  return made.release().ptr();
}

}  // namespace

void register_native_function(py::module_& module) {
  module.add_object("NativeFunction",
                    FunctionType<NativeFunction>::make("mx_ndarray._core.NativeFunction", function_methods));
}

}  // namespace mx::nd
