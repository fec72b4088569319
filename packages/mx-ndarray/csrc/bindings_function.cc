// SPDX-License-Identifier: Apache-2.0
//
// The type of generated operator functions.
#include "bindings_call_sites.hpp"
#include "bindings_function_type.hpp"
#include "bindings_targets.hpp"

namespace mx::nd {
namespace {

struct OperatorFunction {
  FunctionHead head;
  PyObject* held;    // NULL
  PyOperator* op;    // lives as long as the process
  CallSites* sites;  // Owns

  static PyObject* create(PyTypeObject* type, PyObject* property);
  void destroy() noexcept { delete sites; }
  PyObject* repr() const noexcept { return PyUnicode_FromFormat("<operator function %s>", op->name.c_str()); }
};

PyObject* wrap_results(std::vector<Value>& results) {
  if (results.size() == 1) return wrap(std::move(results[0]));
  py::list list(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), wrap(std::move(results[i])));
  }
  return list.release().ptr();
}

PyObject* call_function(OperatorFunction* self, const Arguments& arguments) {
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
  auto* self = reinterpret_cast<OperatorFunction*>(callable);
  const Arguments arguments{values, static_cast<size_t>(PyVectorcall_NARGS(flags)), names};
  return protect([&] { return call_function(self, arguments); });
}

PyObject* OperatorFunction::create(PyTypeObject* type, PyObject* property) {
  PyOperator& op = operator_of(py::reinterpret_borrow<py::object>(property));
  auto sites = std::make_unique<CallSites>(op);
  PyObject* object = owned(type->tp_alloc(type, 0));
  auto* self = reinterpret_cast<OperatorFunction*>(object);
  self->head.vectorcall = function_vectorcall;
  self->op = &op;
  self->sites = sites.release();
  return object;
}

}  // namespace

void register_function(py::module_& module) {
  module.add_object("OperatorFunction",
                    FunctionType<OperatorFunction>::make("mx_ndarray._core.OperatorFunction", nullptr));
}

}  // namespace mx::nd
