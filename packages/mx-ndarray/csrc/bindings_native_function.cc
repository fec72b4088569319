// SPDX-License-Identifier: Apache-2.0
#include "bindings_native_function.hpp"

#include <cstddef>

#include <structmember.h>

namespace mx::nd {
namespace {

struct NativeFunction {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* dictionary;    // __name__, __doc__, __wrapped__, ...
  PyObject* python;        // Owns: serves every call that is not usual
  const NativeCall* call;
  PyObject* names[kMostParameters];  // Owns: interned
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

PyObject* function_vectorcall(PyObject* callable, PyObject* const* values, size_t flags,
                              PyObject* names) {
  auto* self = reinterpret_cast<NativeFunction*>(callable);
  return protect([&]() -> PyObject* {
    Bound bound;
    if (bind(*self, values, static_cast<size_t>(PyVectorcall_NARGS(flags)), names, bound)) {
      if (PyObject* served = self->call->serve(bound)) return served;
    }
    return owned(PyObject_Vectorcall(self->python, values, flags, names));
  });
}

PyObject* function_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return protect([&] {
    PyObject* python = nullptr;
    if (PyArg_ParseTuple(args, "O", &python) == 0) throw PythonErrorSet{};
    const auto name = py::handle(python).attr("__name__").cast<std::string>();
    const NativeCall* call = kNativeCalls;
    while (call->name != nullptr && name != call->name) ++call;
    if (call->name == nullptr) throw Error(MX_ERROR_VALUE, "nothing serves '" + name + "' natively");
    PyObject* object = owned(type->tp_alloc(type, 0));
    const auto made = py::reinterpret_steal<py::object>(object);
    auto* self = reinterpret_cast<NativeFunction*>(object);
    self->vectorcall = function_vectorcall;
    Py_INCREF(python);
    self->python = python;
    self->call = call;
    for (size_t i = 0; i < kMostParameters && call->parameters[i] != nullptr; ++i) {
      self->names[i] = owned(PyUnicode_InternFromString(call->parameters[i]));
    }
    return py::object(made).release().ptr();
  });
}

int function_traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<NativeFunction*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dictionary);
  Py_VISIT(self->python);
  return 0;
}

int function_clear(PyObject* object) {
  auto* self = reinterpret_cast<NativeFunction*>(object);
  Py_CLEAR(self->dictionary);
  Py_CLEAR(self->python);
  return 0;
}

void function_dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  function_clear(object);
  for (PyObject*& name : reinterpret_cast<NativeFunction*>(object)->names) Py_CLEAR(name);
  PyTypeObject* type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* function_repr(PyObject* object) {
  return PyObject_Repr(reinterpret_cast<NativeFunction*>(object)->python);
}

// Pickled as functions are: by name.
PyObject* function_reduce(PyObject* object, PyObject*) {
  return PyObject_GetAttrString(reinterpret_cast<NativeFunction*>(object)->python, "__qualname__");
}

PyObject* function_get(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

PyMethodDef function_methods[] = {
    {"__reduce__", function_reduce, METH_NOARGS, "For pickle."}, {nullptr, nullptr, 0, nullptr}};

PyMemberDef function_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(NativeFunction, dictionary), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(NativeFunction, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef function_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyType_Slot function_slots[] = {
    {Py_tp_new, slot(function_new)},
    {Py_tp_dealloc, slot(function_dealloc)},
    {Py_tp_traverse, slot(function_traverse)},
    {Py_tp_clear, slot(function_clear)},
    {Py_tp_call, slot(PyVectorcall_Call)},
    {Py_tp_repr, slot(function_repr)},
    {Py_tp_descr_get, slot(function_get)},
    {Py_tp_methods, function_methods},
    {Py_tp_members, function_members},
    {Py_tp_getset, function_attributes},
    {0, nullptr}};

PyType_Spec function_spec = {
    "mx_ndarray._core.NativeFunction", sizeof(NativeFunction), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_METHOD_DESCRIPTOR,
    function_slots};

}  // namespace

void register_native_function(py::module_& module) {
  module.add_object("NativeFunction", owned(PyType_FromSpec(&function_spec)));
}

}  // namespace mx::nd
