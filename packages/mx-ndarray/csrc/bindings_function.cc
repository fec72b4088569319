// SPDX-License-Identifier: Apache-2.0
//
// The type of generated operator functions.
#include <cstddef>

#include "bindings_call_sites.hpp"
#include "bindings_targets.hpp"

#include <structmember.h>

namespace mx::nd {
namespace {

struct FunctionObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* dictionary;  // __name__, __doc__, __signature__, ...
  PyOperator* op;        // lives as long as the process
  CallSites* sites;      // Owns
};

PyTypeObject* function_type = nullptr;

PyObject* wrap_results(std::vector<Value>& results) {
  if (results.size() == 1) return wrap(std::move(results[0]));
  py::list list(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), wrap(std::move(results[i])));
  }
  return list.release().ptr();
}

PyObject* call_function(FunctionObject* self, const Arguments& arguments) {
  PyOperator& op = *self->op;
  CallSite site;
  self->sites->bind(arguments, site);
  const BoundCall& bound = *site.bound;
  SmallVector<Value, 8> inputs(bound.inputs.size());
  for (size_t i = 0; i < bound.inputs.size(); ++i) {
    PyArray* array = expect_array(arguments.values[bound.inputs[i]], op.name.c_str());
    wait_for_shape(*array->array);
    inputs[i] = array->value();
  }
  PyObject* out = bound.out < 0 ? Py_None : arguments.values[bound.out];
  Targets targets;
  if (out != Py_None) targets.collect(out, op.name);
  Invocation invocation;
  invocation.op = &op;
  invocation.params = bound.params.get();
  invocation.scalars = site.scalars.empty() ? nullptr : site.scalars.data();
  invocation.inputs = inputs.data();
  invocation.n_inputs = static_cast<uint32_t>(inputs.size());
  invocation.outputs = targets.arrays.data();
  invocation.n_outputs = static_cast<uint32_t>(targets.arrays.size());
  if (inputs.empty() && targets.arrays.empty()) {
    invocation.context = bound.has_context ? bound.context : current_context();
  }
  invocation.origin = origin();
  std::vector<Value> results;
  invoke(invocation, results);
  if (out == Py_None) return wrap_results(results);
  targets.adopt(results);
  Py_INCREF(out);
  return out;
}

PyObject* function_vectorcall(PyObject* callable, PyObject* const* values, size_t flags,
                              PyObject* names) {
  auto* self = reinterpret_cast<FunctionObject*>(callable);
  const Arguments arguments{values, static_cast<size_t>(PyVectorcall_NARGS(flags)), names};
  return protect([&] { return call_function(self, arguments); });
}

PyObject* function_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return protect([&] {
    PyObject* property = nullptr;
    if (PyArg_ParseTuple(args, "O", &property) == 0) throw PythonErrorSet{};
    PyOperator& op = operator_of(py::reinterpret_borrow<py::object>(property));
    auto sites = std::make_unique<CallSites>(op);
    PyObject* object = owned(type->tp_alloc(type, 0));
    auto* self = reinterpret_cast<FunctionObject*>(object);
    self->vectorcall = function_vectorcall;
    self->op = &op;
    self->sites = sites.release();
    return object;
  });
}

int function_traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<FunctionObject*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dictionary);
  return 0;
}

int function_clear(PyObject* object) {
  Py_CLEAR(reinterpret_cast<FunctionObject*>(object)->dictionary);
  return 0;
}

void function_dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  auto* self = reinterpret_cast<FunctionObject*>(object);
  PyTypeObject* type = Py_TYPE(object);
  Py_CLEAR(self->dictionary);
  delete self->sites;
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* function_repr(PyObject* object) {
  auto* self = reinterpret_cast<FunctionObject*>(object);
  return PyUnicode_FromFormat("<operator function %s>", self->op->name.c_str());
}

// As a method it takes the array as its first argument.
PyObject* function_get(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

PyMemberDef function_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dictionary), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
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
    {Py_tp_members, function_members},
    {Py_tp_getset, function_attributes},
    {0, nullptr}};

PyType_Spec function_spec = {
    "mx_ndarray._core.OperatorFunction", sizeof(FunctionObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_METHOD_DESCRIPTOR,
    function_slots};

}  // namespace

void register_function(py::module_& module) {
  function_type = reinterpret_cast<PyTypeObject*>(owned(PyType_FromSpec(&function_spec)));
  module.add_object("OperatorFunction", reinterpret_cast<PyObject*>(function_type));
}

}  // namespace mx::nd
