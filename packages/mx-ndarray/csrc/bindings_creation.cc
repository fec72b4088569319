// SPDX-License-Identifier: Apache-2.0
//
// The usual calls of functions that make arrays.
#include <cstring>

#include "bindings_native_function.hpp"
#include "bindings_shaped.hpp"

namespace mx::nd {
namespace {

bool absent(PyObject* value) noexcept { return value == nullptr || value == Py_None; }

// Sizes given as an int, or a tuple or list of ints; false for anything else.
bool plain_shape(PyObject* given, Shape* shape) {
  if (given == nullptr) return false;
  PyObject* single[] = {given};
  PyObject* const* items = single;
  Py_ssize_t n = 1;
  const CriticalSection section(given);  // of a list
  if (PyTuple_CheckExact(given) != 0 || PyList_CheckExact(given) != 0) {
    items = PySequence_Fast_ITEMS(given);
    n = PySequence_Fast_GET_SIZE(given);
  }
  int64_t dims[MX_MAX_NDIM];
  if (n > MX_MAX_NDIM) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (PyLong_CheckExact(items[i]) == 0) return false;
    int overflow = 0;
    dims[i] = PyLong_AsLongLongAndOverflow(items[i], &overflow);
    if (overflow != 0 || dims[i] < 0) return false;
  }
  *shape = Shape(static_cast<int32_t>(n), dims);
  return true;
}

// A type's code from what names it: a NumPy type or dtype, or text.
bool plain_dtype(PyObject* given, int32_t absent_code, int32_t* code) {
  *code = absent_code;
  if (absent(given)) return true;
  if (PyUnicode_CheckExact(given) == 0 && PyType_Check(given) == 0) return false;
  PyObject* known = PyDict_GetItemWithError(hooks().dtype_codes.ptr(), given);
  if (known == nullptr) {
    if (PyErr_Occurred() != nullptr) throw PythonErrorSet{};
    return false;
  }
  *code = static_cast<int32_t>(PyLong_AsLong(known));
  return true;
}

bool plain_context(PyObject* given, mx_context* context) {
  if (absent(given)) {
    *context = current_context();
    return true;
  }
  if (!is_context(given)) return false;
  *context = context_of(given);
  return true;
}

bool plain_number(PyObject* given, double absent_value, double* number) {
  *number = absent_value;
  if (given == nullptr) return true;
  if (PyFloat_CheckExact(given) != 0) {
    *number = PyFloat_AS_DOUBLE(given);
    return true;
  }
  if (PyLong_CheckExact(given) == 0) return false;
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(given, &overflow);
  constexpr int64_t kExact = int64_t{1} << 53;
  *number = static_cast<double>(value);
  return overflow == 0 && value <= kExact && value >= -kExact;
}

PyObject* constant(Shaped which, PyObject* shape, PyObject* ctx, PyObject* dtype,
                   const double* scalars) {
  Shape dims;
  int32_t code = 0;
  mx_context context{};
  if (!plain_shape(shape, &dims) || !plain_dtype(dtype, MX_FLOAT32, &code) ||
      !plain_context(ctx, &context)) {
    return nullptr;
  }
  return make_shaped(which, dims, code, context, scalars);
}

PyObject* zeros(const Bound& given) {
  const auto& [shape, ctx, dtype, stype, out, unused, unused_2] = given;
  if (!absent(stype) || !absent(out)) return nullptr;
  return constant(Shaped::kZeros, shape, ctx, dtype, nullptr);
}

PyObject* ones(const Bound& given) {
  const auto& [shape, ctx, dtype, out, unused, unused_2, unused_3] = given;
  return absent(out) ? constant(Shaped::kOnes, shape, ctx, dtype, nullptr) : nullptr;
}

PyObject* full(const Bound& given) {
  const auto& [shape, value, ctx, dtype, out, unused, unused_2] = given;
  double number = 0;
  if (!absent(out) || value == nullptr || !plain_number(value, 0, &number)) return nullptr;
  return constant(Shaped::kFull, shape, ctx, dtype, &number);
}

PyObject* empty(const Bound& given) {
  const auto& [shape, ctx, dtype, stype, unused, unused_2, unused_3] = given;
  Shape dims;
  int32_t code = 0;
  mx_context context{};
  if (!absent(stype) || !plain_shape(shape, &dims) || !plain_dtype(dtype, MX_FLOAT32, &code) ||
      !plain_context(ctx, &context)) {
    return nullptr;
  }
  return wrap({Array::create(context, code, std::move(dims)), nullptr, 0});
}

PyObject* random_numbers(Shaped which, const Bound& given) {
  const auto& [first, second, shape, dtype, ctx, out, unused] = given;
  double scalars[2] = {0, 1};
  Shape dims;
  int32_t code = 0;
  mx_context context{};
  if (!absent(out) || !plain_number(first, 0, &scalars[0]) || !plain_number(second, 1, &scalars[1]) ||
      !plain_dtype(dtype, kDefaultType, &code) || !plain_context(ctx, &context)) {
    return nullptr;
  }
  const int64_t one = 1;
  if (absent(shape)) {
    dims = Shape(1, &one);
  } else if (!plain_shape(shape, &dims)) {
    return nullptr;
  }
  return make_shaped(which, dims, code, context, scalars);
}

PyObject* arange(const Bound& given) {
  const auto& [start, stop, step, repeat, infer_range, ctx, dtype] = given;  // infer_range says nothing here
  Progression numbers{0, 0, 1, 1};
  int32_t code = 0;
  mx_context context{};
  if (start == nullptr || !plain_number(step, 1, &numbers.step) || !plain_dtype(dtype, MX_FLOAT32, &code) ||
      !plain_context(ctx, &context)) {
    return nullptr;
  }
  const bool from_zero = absent(stop);
  if (!plain_number(start, 0, from_zero ? &numbers.stop : &numbers.start) ||
      (!from_zero && !plain_number(stop, 0, &numbers.stop))) {
    return nullptr;
  }
  if (repeat != nullptr) {
    if (PyLong_CheckExact(repeat) == 0) return nullptr;
    int overflow = 0;
    numbers.repeat = PyLong_AsLongLongAndOverflow(repeat, &overflow);
    if (overflow != 0 || numbers.repeat < 1) return nullptr;
  }
  return make_progression(numbers, code, context);
}

// ---- array ----

bool is_nest(PyObject* item) noexcept { return PyList_CheckExact(item) != 0 || PyTuple_CheckExact(item) != 0; }

// How many there are now.
Py_ssize_t length_of(PyObject* nest) {
  const CriticalSection section(nest);
  return PySequence_Fast_GET_SIZE(nest);
}

// The list or tuple that is its item `i` now; null when there is none.
py::object nest_in(PyObject* nest, int64_t i) {
  const CriticalSection section(nest);
  if (i >= PySequence_Fast_GET_SIZE(nest) || !is_nest(PySequence_Fast_GET_ITEM(nest, i))) return {};
  return py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(nest, i));
}

// Writes the numbers of a list; false when it has others, or something else.
template <class T>
bool fill_last(PyObject* nest, int64_t count, T*& to) {
  const CriticalSection section(nest);
  if (PySequence_Fast_GET_SIZE(nest) != count) return false;
  PyObject** items = PySequence_Fast_ITEMS(nest);
  for (int64_t i = 0; i < count; ++i) {
    PyObject* item = items[i];
    if (PyFloat_CheckExact(item) != 0) {
      *to++ = static_cast<T>(PyFloat_AS_DOUBLE(item));
    } else if (PyLong_CheckExact(item) != 0 || PyBool_Check(item) != 0) {
      double number = 0;
      if (PyBool_Check(item) != 0) {
        number = item == Py_True ? 1 : 0;
      } else if (!plain_number(item, 0, &number)) {
        return false;
      }
      *to++ = static_cast<T>(number);
    } else {
      return false;
    }
  }
  return true;
}

// The same of nested lists of equal length.
template <class T>
bool fill(PyObject* nest, const Shape& shape, int32_t axis, T*& to) {
  if (axis + 1 == shape.ndim()) return fill_last(nest, shape[axis], to);
  if (length_of(nest) != shape[axis]) return false;
  for (int64_t i = 0; i < shape[axis]; ++i) {
    const py::object below = nest_in(nest, i);
    if (!below || !fill(below.ptr(), shape, axis + 1, to)) return false;
  }
  return true;
}

// The shape that the first items of nested lists suggest.
bool nested_shape(PyObject* nest, Shape* shape) {
  int64_t dims[MX_MAX_NDIM];
  int32_t n = 0;
  for (auto item = py::reinterpret_borrow<py::object>(nest); item; item = nest_in(item.ptr(), 0)) {
    if (n == MX_MAX_NDIM) return false;
    dims[n++] = length_of(item.ptr());
  }
  *shape = Shape(n, dims);
  return true;
}

// Whether the lists above the last axis are as long as the first ones; before memory is taken.
bool has_lengths(PyObject* nest, const Shape& shape, int32_t axis) {
  if (length_of(nest) != shape[axis]) return false;
  if (axis + 1 == shape.ndim()) return true;
  for (int64_t i = 0; i < shape[axis]; ++i) {
    const py::object below = nest_in(nest, i);
    if (!below || !has_lengths(below.ptr(), shape, axis + 1)) return false;
  }
  return true;
}

// Copies of NumPy arrays that are laid out and typed as ours.
PyObject* from_plain_numpy(PyObject* source, int32_t code, mx_context context) {
  const auto values = py::reinterpret_borrow<py::array>(source);
  if ((values.flags() & py::array::c_style) == 0 || values.nbytes() > py::ssize_t{1} << 16 ||
      !values.dtype().is(numpy_dtype(code))) {
    return nullptr;
  }
  Ref<Array> made = Array::create(
      context, code, Shape(static_cast<int32_t>(values.ndim()),
                           std::vector<int64_t>(values.shape(), values.shape() + values.ndim()).data()));
  if (made->bytes() != 0) std::memcpy(made->allocate(), values.data(), made->bytes());
  return wrap({std::move(made), nullptr, 0});
}

PyObject* array(const Bound& given) {
  const auto& [source, ctx, dtype, unused, unused_2, unused_3, unused_4] = given;
  int32_t code = 0;
  mx_context context{};
  if (source == nullptr || !plain_dtype(dtype, MX_FLOAT32, &code) || !plain_context(ctx, &context) ||
      !mx_on_host(context)) {
    return nullptr;
  }
  if (!is_nest(source)) {
    const bool numpy = PyObject_TypeCheck(source, py::detail::npy_api::get().PyArray_Type_) != 0;
    return numpy ? from_plain_numpy(source, code, context) : nullptr;
  }
  Shape shape;
  if ((code != MX_FLOAT32 && code != MX_FLOAT64) || !nested_shape(source, &shape) ||
      !has_lengths(source, shape, 0)) {
    return nullptr;
  }
  Ref<Array> made = Array::create(context, code, shape);
  void* memory = made->allocate();
  bool filled = false;
  if (code == MX_FLOAT32) {
    auto* to = static_cast<float*>(memory);
    filled = fill(source, shape, 0, to);
  } else {
    auto* to = static_cast<double*>(memory);
    filled = fill(source, shape, 0, to);
  }
  return filled ? wrap({std::move(made), nullptr, 0}) : nullptr;
}

}  // namespace

const NativeCall kNativeCalls[] = {
    {"zeros", {"shape", "ctx", "dtype", "stype", "out"}, &zeros},
    {"ones", {"shape", "ctx", "dtype", "out"}, &ones},
    {"full", {"shape", "val", "ctx", "dtype", "out"}, &full},
    {"empty", {"shape", "ctx", "dtype", "stype"}, &empty},
    {"array", {"source_array", "ctx", "dtype"}, &array},
    {"arange", {"start", "stop", "step", "repeat", "infer_range", "ctx", "dtype"}, &arange},
    {"uniform", {"low", "high", "shape", "dtype", "ctx", "out"},
     [](const Bound& given) { return random_numbers(Shaped::kUniform, given); }},
    {"normal", {"loc", "scale", "shape", "dtype", "ctx", "out"},
     [](const Bound& given) { return random_numbers(Shaped::kNormal, given); }},
    {nullptr, {}, nullptr},
};

}  // namespace mx::nd
