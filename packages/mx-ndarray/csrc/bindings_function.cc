// SPDX-License-Identifier: Apache-2.0
//
// Generated operator functions and the arithmetic of NDArray.
#include <cstddef>

#include <unordered_map>

#include "bindings_function_cache.hpp"

#include <structmember.h>

namespace mx::nd {
namespace {

struct FunctionObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* dictionary;  // __name__, __doc__, __signature__, ...
  PyOperator* op;        // Owns: a reference
  CallSites* sites;      // Owns
};

PyTypeObject* function_type = nullptr;

// ---- from arguments to an invocation ----

BoundCall bind_slowly(const PyOperator& op, const Arguments& arguments) {
  py::tuple positional(arguments.n_positional);
  for (size_t i = 0; i < arguments.n_positional; ++i) {
    positional[i] = py::reinterpret_borrow<py::object>(arguments.values[i]);
  }
  py::dict named;
  for (size_t i = arguments.n_positional; i < arguments.size(); ++i) {
    named[py::handle(PyTuple_GET_ITEM(arguments.names, i - arguments.n_positional))] =
        py::reinterpret_borrow<py::object>(arguments.values[i]);
  }
  const py::object parsed = hooks().bind(op.property, positional, named);
  BoundCall bound;
  bound.params = const_cast<PyOperator&>(op).params(parsed.attr("params"));
  bound.inputs = parsed.attr("inputs").cast<std::vector<uint32_t>>();
  bound.out = parsed.attr("out").cast<int32_t>();
  bound.runtime = parsed.attr("runtime").cast<std::vector<int32_t>>();
  const py::object context = parsed.attr("context");
  bound.has_context = !context.is_none();
  if (bound.has_context) bound.context = context_of(context.ptr());
  return bound;
}

// The arrays given as `out`.
struct Targets {
  std::vector<PyArray*> objects;  // borrowed
  std::vector<Array*> arrays;
  // The targets hold what was recorded.
  void adopt(const std::vector<Value>& results) const noexcept {
    for (size_t i = 0; i < objects.size() && i < results.size(); ++i) {
      if (results[i].node) set_node(objects[i], results[i].node, results[i].index);
    }
  }
};

Targets collect_outputs(PyObject* out, const std::string& name) {
  Targets targets;
  const auto add = [&](PyObject* item) {
    PyArray* array = expect_array(item, ("[" + name + "] out").c_str());
    if (!array->writable) {
      throw Error(MX_ERROR_VALUE, "[" + name + "] out: the array is not writable");
    }
    if (mode().recording && array->node != nullptr) {
      throw Error(MX_ERROR, "[" + name +
                                "] cannot assign to an array that is part of a computational graph "
                                "while recording: its gradient would be wrong. Use a new array, or "
                                "assign outside autograd.record() (in-place operators, out= and "
                                "x[...] = y all assign)");
    }
    settle(*array->array);
    targets.objects.push_back(array);
    targets.arrays.push_back(array->array);
  };
  if (is_array(out)) {
    add(out);
    return targets;
  }
  if (PyList_Check(out) == 0 && PyTuple_Check(out) == 0) expect_array(out, ("[" + name + "] out").c_str());
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(out);
  for (Py_ssize_t i = 0; i < n; ++i) add(PySequence_Fast_GET_ITEM(out, i));
  return targets;
}

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
  bool exact = true;
  std::vector<double> scalars;
  const BoundCall* site = self->sites->find(arguments, &exact, &scalars);
  BoundCall bound;
  // While recording, the tape needs parameters that hold this call's scalars.
  if (site != nullptr && (exact || !mode().recording)) {
    bound = *site;
  } else {
    bound = bind_slowly(op, arguments);
    self->sites->insert(arguments, bound);
    exact = true;
  }
  std::vector<Value> inputs;
  inputs.reserve(bound.inputs.size());
  for (const uint32_t i : bound.inputs) {
    PyArray* array = expect_array(arguments.values[i], op.name.c_str());
    settle(*array->array);
    inputs.push_back(array->value());
  }
  PyObject* out = bound.out < 0 ? Py_None : arguments.values[bound.out];
  Targets targets;
  if (out != Py_None) targets = collect_outputs(out, op.name);
  Invocation invocation;
  invocation.op = &op;
  invocation.params = bound.params.get();
  invocation.scalars = exact ? nullptr : scalars.data();
  invocation.inputs = inputs.data();
  invocation.n_inputs = static_cast<uint32_t>(inputs.size());
  invocation.outputs = targets.arrays.data();
  invocation.n_outputs = static_cast<uint32_t>(targets.arrays.size());
  if (inputs.empty() && targets.arrays.empty()) {
    invocation.context =
        bound.has_context ? bound.context : context_of(hooks().current_context().ptr());
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
    Ref<PyOperator> op = operator_of(py::reinterpret_borrow<py::object>(property));
    PyObject* object = owned(type->tp_alloc(type, 0));
    auto* self = reinterpret_cast<FunctionObject*>(object);
    self->vectorcall = function_vectorcall;
    self->op = op.detach();
    self->sites = new CallSites;
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
  if (self->op != nullptr) self->op->release();
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

// ---- arithmetic ----

// The operators behind one Python operator.
struct Arithmetic {
  const char* same_shape;
  const char* broadcasting;
  const char* scalar;
  const char* reflected_scalar;
};

constexpr Arithmetic kArithmetic[] = {
    {"elemwise_add", "broadcast_add", "_plus_scalar", "_plus_scalar"},
    {"elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar"},
    {"elemwise_mul", "broadcast_mul", "_mul_scalar", "_mul_scalar"},
    {"elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar"},
    {"broadcast_mod", "broadcast_mod", "_mod_scalar", "_rmod_scalar"},
    {"broadcast_power", "broadcast_power", "_power_scalar", "_rpower_scalar"},
    {"broadcast_equal", "broadcast_equal", "_equal_scalar", "_equal_scalar"},
    {"broadcast_not_equal", "broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar"},
    {"broadcast_lesser", "broadcast_lesser", "_lesser_scalar", "_greater_scalar"},
    {"broadcast_lesser_equal", "broadcast_lesser_equal", "_lesser_equal_scalar",
     "_greater_equal_scalar"},
    {"broadcast_greater", "broadcast_greater", "_greater_scalar", "_lesser_scalar"},
    {"broadcast_greater_equal", "broadcast_greater_equal", "_greater_equal_scalar",
     "_lesser_equal_scalar"},
};
constexpr size_t kKinds = sizeof kArithmetic / sizeof kArithmetic[0];
enum Form : size_t { kSame, kBroadcast, kScalar, kReflected, kForms };

// Resolved once; emptied with the operator caches.
PyOperator* arithmetic_table[kKinds][kForms] = {};

PyOperator& arithmetic(Binary which, Form form) {
  PyOperator*& op = arithmetic_table[static_cast<size_t>(which)][form];
  if (op == nullptr) {
    const Arithmetic& names = kArithmetic[static_cast<size_t>(which)];
    op = &find_operator(form == kSame        ? names.same_shape
                        : form == kBroadcast ? names.broadcasting
                        : form == kScalar    ? names.scalar
                                             : names.reflected_scalar);
  }
  return *op;
}

// Parameters of scalar operators by value; `exact` is false when the run-time scalar differs.
struct ScalarParams {
  std::unordered_map<uint64_t, Ref<Params>> known;
  Ref<Params> any;
};
std::unordered_map<PyOperator*, ScalarParams>& scalar_params() {
  static auto* table = new std::unordered_map<PyOperator*, ScalarParams>;
  return *table;
}

Ref<Params> params_for(PyOperator& op, PyObject* scalar, double number, bool* exact) {
  constexpr size_t kScalars = 512;
  ScalarParams& table = scalar_params()[&op];
  // Numbers that differ only in type (1, 1.0, True) may mean different parameters.
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  bits ^= PyFloat_Check(scalar) != 0 ? 0u : 0x5bd1e995u;
  *exact = true;
  if (!mode().recording && table.any && table.any->scalars.size() == 1) {
    *exact = false;
    return table.any;
  }
  const auto found = table.known.find(bits);
  if (found != table.known.end()) return found->second;
  if (table.known.size() >= kScalars) table.known.clear();
  Ref<Params> made =
      op.params(hooks().scalar_params(op.property, py::reinterpret_borrow<py::object>(scalar)));
  table.known.emplace(bits, made);
  // Only if the scalar is the single run-time parameter may another value stand in for it.
  if (made->scalars.size() == 1 && made->scalars[0] == number) table.any = made;
  return made;
}

PyObject* apply(PyOperator& op, Params& params, const double* scalars, const Value* inputs,
                uint32_t n_inputs, PyObject* target) {
  Invocation invocation;
  invocation.op = &op;
  invocation.params = &params;
  invocation.scalars = scalars;
  invocation.inputs = inputs;
  invocation.n_inputs = n_inputs;
  Targets targets;
  if (target != nullptr) {
    targets = collect_outputs(target, op.name);
    invocation.outputs = targets.arrays.data();
    invocation.n_outputs = 1;
  }
  invocation.origin = origin();
  std::vector<Value> results;
  invoke(invocation, results);
  if (target == nullptr) return wrap(std::move(results.at(0)));
  targets.adopt(results);
  Py_INCREF(target);
  return target;
}

// The number a Python or NumPy scalar stands for; false when it is none.
bool as_number(PyObject* object, double* number) {
  if (PyFloat_Check(object) != 0) {
    *number = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (PyLong_Check(object) == 0) {
    PyNumberMethods* methods = Py_TYPE(object)->tp_as_number;
    const bool numeric = methods != nullptr && methods->nb_float != nullptr;
    // Arrays of NumPy convert when they have one element, but they are arrays.
    if (!numeric || PyObject_HasAttrString(object, "__len__") != 0 ||
        PyObject_HasAttrString(object, "item") == 0 || PySequence_Check(object) != 0) {
      return false;
    }
  }
  *number = PyFloat_AsDouble(object);
  if (*number == -1.0 && PyErr_Occurred() != nullptr) throw PythonErrorSet{};
  return true;
}

PyObject* with_arrays(Binary which, PyArray* lhs, PyArray* rhs, PyObject* target) {
  settle(*lhs->array);
  settle(*rhs->array);
  const bool same = lhs->array->shape() == rhs->array->shape();
  PyOperator& op = arithmetic(which, same ? kSame : kBroadcast);
  const Value inputs[] = {lhs->value(), rhs->value()};
  return apply(op, op.no_params(), nullptr, inputs, 2, target);
}

PyObject* with_scalar(Binary which, PyArray* array, PyObject* scalar, double number, bool reflected,
                      PyObject* target) {
  settle(*array->array);
  PyOperator& op = arithmetic(which, reflected ? kReflected : kScalar);
  bool exact = true;
  const Ref<Params> params = params_for(op, scalar, number, &exact);
  const Value input = array->value();
  return apply(op, *params, exact ? nullptr : &number, &input, 1, target);
}

PyObject* binary_checked(Binary which, PyObject* lhs, PyObject* rhs, bool in_place) {
  PyObject* target = in_place ? lhs : nullptr;
  if (is_array(lhs) && is_array(rhs)) {
    return with_arrays(which, as_array(lhs), as_array(rhs), target);
  }
  const bool reflected = !is_array(lhs);
  PyObject* other = reflected ? lhs : rhs;
  PyArray* array = as_array(reflected ? rhs : lhs);
  double number = 0;
  if (as_number(other, &number)) {
    return with_scalar(which, array, other, number, reflected, target);
  }
  const py::object converted = hooks().operand(py::handle(reinterpret_cast<PyObject*>(array)),
                                               py::handle(other));
  if (!is_array(converted.ptr())) return py::object(converted).release().ptr();
  PyArray* second = as_array(converted.ptr());
  return reflected ? with_arrays(which, second, array, target)
                   : with_arrays(which, array, second, target);
}

}  // namespace

PyObject* binary(Binary which, PyObject* lhs, PyObject* rhs, bool in_place) noexcept {
  return protect([&] { return binary_checked(which, lhs, rhs, in_place); });
}

void forget_functions() noexcept {
  for (auto& row : arithmetic_table) {
    for (PyOperator*& op : row) op = nullptr;
  }
  scalar_params().clear();
}

void register_function(py::module_& module) {
  function_type = reinterpret_cast<PyTypeObject*>(owned(PyType_FromSpec(&function_spec)));
  module.add_object("OperatorFunction", reinterpret_cast<PyObject*>(function_type));
}

}  // namespace mx::nd
