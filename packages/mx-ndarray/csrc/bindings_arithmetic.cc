// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of NDArray: which operator stands behind `a + b`.
#include "bindings_targets.hpp"

namespace mx::nd {
namespace {

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

// Resolved at first use; emptied with the operator caches.  Operators are never freed.
std::atomic<PyOperator*> arithmetic_table[kKinds][kForms] = {};

PyOperator& arithmetic(Binary which, Form form) {
  std::atomic<PyOperator*>& place = arithmetic_table[static_cast<size_t>(which)][form];
  PyOperator* op = place.load(std::memory_order_acquire);
  if (op == nullptr) {
    const Arithmetic& names = kArithmetic[static_cast<size_t>(which)];
    op = &find_operator(form == kSame        ? names.same_shape
                        : form == kBroadcast ? names.broadcasting
                        : form == kScalar    ? names.scalar
                                             : names.reflected_scalar);
    place.store(op, std::memory_order_release);
  }
  return *op;
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
    targets.collect(target, op.name);
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

// True for an integer that the array's type holds and a double does not: scalars travel as doubles.
bool is_exact_integer(const Array& array, PyObject* number) {
  if (array.dtype() != MX_INT64 && array.dtype() != MX_UINT64) return false;
  py::object index;  // of a NumPy integer
  if (PyLong_Check(number) == 0) {
    if (PyIndex_Check(number) == 0) return false;
    index = py::reinterpret_steal<py::object>(PyNumber_Index(number));
    if (!index) {
      if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw PythonErrorSet{};
      PyErr_Clear();
      return false;
    }
    number = index.ptr();
  }
  constexpr int64_t kExact = int64_t{1} << 53;
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow < 0) return false;
  if (overflow == 0) {
    return value > kExact || (value < -kExact && array.dtype() == MX_INT64);
  }
  if (array.dtype() == MX_INT64) return false;
  const bool fits = PyLong_AsUnsignedLongLong(number) != ~0ull || PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return fits;
}

PyObject* with_arrays(Binary which, PyArray* lhs, PyArray* rhs, PyObject* target) {
  wait_for_shape(*lhs->array);
  wait_for_shape(*rhs->array);
  const bool same = lhs->array->shape() == rhs->array->shape();
  PyOperator& op = arithmetic(which, same ? kSame : kBroadcast);
  const Value inputs[] = {lhs->value(), rhs->value()};
  return apply(op, op.no_params(), nullptr, inputs, 2, target);
}

PyObject* with_scalar(Binary which, PyArray* array, double number, bool reflected,
                      PyObject* target) {
  wait_for_shape(*array->array);
  PyOperator& op = arithmetic(which, reflected ? kReflected : kScalar);
  bool exact = true;
  const Ref<Params> params = op.scalar_params(number, mode().recording, &exact);
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
  const bool is_number = as_number(other, &number);
  if (is_number && !is_exact_integer(*array->array, other)) {
    return with_scalar(which, array, number, reflected, target);
  }
  const PythonFunction& convert = is_number ? hooks().integer_operand : hooks().operand;
  const py::object converted = convert(py::handle(reinterpret_cast<PyObject*>(array)), py::handle(other));
  if (!is_array(converted.ptr())) return py::object(converted).release().ptr();
  PyArray* second = as_array(converted.ptr());
  return reflected ? with_arrays(which, second, array, target)
                   : with_arrays(which, array, second, target);
}

}  // namespace

PyObject* binary(Binary which, PyObject* lhs, PyObject* rhs, bool in_place) noexcept {
  return protect([&] { return binary_checked(which, lhs, rhs, in_place); });
}

void forget_arithmetic() noexcept {
  for (auto& row : arithmetic_table) {
    for (std::atomic<PyOperator*>& op : row) op.store(nullptr, std::memory_order_release);
  }
}

}  // namespace mx::nd
