// SPDX-License-Identifier: Apache-2.0
//
// What the binding files share.  Arrays and generated functions are plain CPython types, because a
// call must cost less than a microsecond; everything cold goes through pybind11.
#pragma once

#include "mx_core/pybind.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "invoke.hpp"

namespace mx::nd {

namespace py = pybind11;

// Raises in C++ what a failed CPython call has set.
inline PyObject* owned(PyObject* object) {
  if (object == nullptr) throw PythonErrorSet{};
  return object;
}

// ---- arrays (bindings_array.cc) ----

// The instance layout of NDArray.
struct PyArray {
  PyObject_HEAD
  Array* array;             // Owns: a reference
  std::atomic<Node*> node;  // Owns: a reference, or NULL; with `index` guarded by the object's critical section
  uint32_t index;
  std::atomic<bool> writable;
  PyObject* weak_references;

  Value value() {
    const CriticalSection section(reinterpret_cast<PyObject*>(this));
    return {Ref<Array>::share(array), Ref<Node>::share(node.load(std::memory_order_relaxed)), index};
  }
  Ref<Node> shared_node() {
    const CriticalSection section(reinterpret_cast<PyObject*>(this));
    return Ref<Node>::share(node.load(std::memory_order_relaxed));
  }
  bool recorded() const noexcept { return node.load(std::memory_order_relaxed) != nullptr; }
};

PyTypeObject* array_base_type() noexcept;
inline bool is_array(PyObject* object) noexcept {
  return PyObject_TypeCheck(object, array_base_type()) != 0;
}
inline PyArray* as_array(PyObject* object) noexcept { return reinterpret_cast<PyArray*>(object); }
// The same with a TypeError that names what came.
PyArray* expect_array(PyObject* object, const char* what);
// Not recorded. Views of recorded arrays are recorded, and recorded arrays refuse assignments, both in Python.
inline bool is_plain(const PyArray* self) noexcept { return !mode().recording || !self->recorded(); }
// A new NDArray.
PyObject* wrap(Value value);
// Changes what an array is in the graph.
void set_node(PyArray* self, Ref<Node> node, uint32_t index) noexcept;
// Waits until a result of unknown shape has one.
void wait_for_shape(Array& array);
// Blocks (without the GIL) until the array is computed; raises its failure.
void wait(Array& array, bool for_write);
void wait_all();
// What waits that this package writes need: how often they look for Ctrl-C, how (an mx_go_on_fn, for a thread without
// the GIL), and what they do with the failure, and with one that somebody has been told before.
constexpr int64_t kSignalInterval = 50'000'000;  // ns
int32_t no_signal(void* unused);
void raise_if_failed(const FailureRef& failure);
void report_earlier(const FailureRef& failure);
// The exception of a failed array as an object, or None.
py::object error_of(Array& array);
// Copies the values that an array in main memory has after everything that was pushed before to `to`, which `owner`
// (NULL: the caller, for at most 16 bytes) keeps alive; blocks until the array is computed and raises its failure (bindings_read.cc).
void read_values(Array& array, void* to, const py::object& owner);
PyObject* as_scalar(PyObject* self, PyObject* unused) noexcept;
py::dtype numpy_dtype(int32_t dtype);
py::tuple shape_tuple(const Shape& shape);
Shape shape_of(const py::handle& shape);
void register_array(py::module_& module);
void register_exchange(py::module_& module);
void register_dlpack(py::module_& module);

// ---- contexts (bindings_context.cc) ----

// True for a Context, not for an instance of a class derived from it.
bool is_context(PyObject* object) noexcept;
mx_context context_of(PyObject* context);
PyObject* context_object(mx_context context);
// The calling thread's default.  Runs no Python.
mx_context current_context();

// ---- views (bindings_indexing.cc, bindings_views.cc) ----

PyObject* subscript(PyObject* self, PyObject* key) noexcept;
int assign_subscript(PyObject* self, PyObject* key, PyObject* value) noexcept;
PyObject* reshape(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) noexcept;

// ---- operators (bindings_operator.cc) ----

class PyParams final : public Params {
 public:
  PyParams(uint64_t key, std::vector<double> scalars, py::object instance)
      : Params(key, std::move(scalars)), instance(std::move(instance)) {}
  ~PyParams() override;
  py::object instance;
};

// An operator of the registry.  Lives as long as the process once it was found by name or property.
class PyOperator final : public Operator {
 public:
  PyOperator(std::string name, bool train_sensitive, py::object property)
      : Operator(std::move(name), train_sensitive), property(std::move(property)) {}
  ~PyOperator() override;
  // The parameters as a handle; equal instances share keys.
  Ref<Params> params(const py::object& instance);
  Params& no_params();
  // Parameters of a scalar operator.  `*exact` is false when they hold another number, for which the
  // caller passes its own as a run-time scalar: the tape needs exact ones.
  Ref<Params> scalar_params(double number, bool recording, bool* exact);
  const py::object property;

 protected:
  Ref<Call> prepare(const Signature& signature) override;
  std::unique_ptr<Gradient> make_gradient(Params& params) override;

 private:
  static constexpr size_t kScalars = 512;
  py::dict keys_;
  std::atomic<Params*> none_{nullptr};        // Owns; set once
  std::atomic<Params*> any_scalar_{nullptr};  // Owns; set once
  KeyedCache<Params> scalars_{kScalars};      // by the bits of the number
};

// Lets a Python reference go wherever this thread stands.
void drop(py::object& object) noexcept;
// The operator that the registry has for a name, looked up once.
PyOperator& find_operator(const char* name);
PyOperator& operator_of(const py::object& property);
OperatorLibrary& library() noexcept;
void register_operator(py::module_& module);

// ---- generated functions and arithmetic (bindings_function.cc, bindings_arithmetic.cc) ----

enum class Binary : uint8_t { kAdd, kSub, kMul, kDiv, kMod, kPow, kEq, kNe, kLt, kLe, kGt, kGe };
PyObject* binary(Binary which, PyObject* lhs, PyObject* rhs, bool in_place) noexcept;
// file:line of the Python code that is running, outside this package; lives as long as the process.
const char* origin() noexcept;
// Drops resolved operators of the arithmetic.
void forget_arithmetic() noexcept;
void register_function(py::module_& module);

// ---- kernels in Python, autograd ----

std::unique_ptr<ForeignKernel> python_kernel(py::object function);
void register_autograd(py::module_& module);
void register_scope(py::module_& module);
void register_custom(py::module_& module);

// ---- lists of arrays (bindings_several.cc) ----

void register_several(py::module_& module);

// ---- hooks into Python (bindings.cc) ----

// A function in Python.
struct PythonFunction {
  py::object function;

  template <class... Arguments>
  py::object operator()(Arguments&&... arguments) const {
    return apply(py::make_tuple(std::forward<Arguments>(arguments)...), py::handle());
  }
  py::object apply(const py::tuple& arguments, py::handle named) const {
    return py::reinterpret_steal<py::object>(
        owned(PyObject_Call(function.ptr(), arguments.ptr(), named.ptr())));
  }
};

// Functions of mx_ndarray that native code calls on slow paths, given once by `configure`.
struct Hooks {
  PyTypeObject* array_class = nullptr;
  PythonFunction prepare;        // (property, params, shapes, types, outputs, context, is_train) -> Prepared
  PythonFunction bind;           // (property, args, kwargs) -> Binding
  PythonFunction scalar_params;  // (property, value) -> params
  PythonFunction shaped_params;  // (property, shape, dtype code or -1) -> params
  PythonFunction progression_params;  // (property, start, stop, step, repeat, dtype code) -> params
  PythonFunction part_params;    // (property, begin, end, step) -> params
  PythonFunction get_item;       // (array, key) -> NDArray
  PythonFunction set_item;       // (array, key, value)
  PythonFunction reshape;        // (array, args, **kwargs) -> NDArray
  PythonFunction operand;        // (array, other) -> NDArray | NotImplemented
  PythonFunction integer_operand;  // (array, int) -> NDArray
  PythonFunction gradient;       // (property, params) -> Gradient
  PythonFunction find;           // (name) -> property
  PythonFunction context;        // (type, id) -> Context
  py::object context_class;
  py::object entered_contexts;   // threading.local: `stack`, the contexts of `with` blocks
  py::object dtype_codes;    // {name or NumPy type: code}
  py::object services;       // module mx_core.services
  PythonFunction run_kernel;     // calls a kernel written in Python
  py::object unsafe_read_warning;
  PythonFunction device_name;    // (type) -> str
  PythonFunction watch_forks;    // (), once the engine is there
  std::string package_folder;  // frames in it are not the user's
  bool sticky_errors = false;
};
Hooks& hooks() noexcept;

}  // namespace mx::nd
