// SPDX-License-Identifier: Apache-2.0
#include "bindings_parts.hpp"

namespace mx::nd {
namespace {

constexpr size_t kKnownParts = 4096;                   // parameters; more start afresh
constexpr Py_ssize_t kWidestStep = Py_ssize_t{1} << 31;  // wider ones are left to Python's integers
constexpr int64_t kOpen = INT64_MIN;                   // an end that is None

// Per axis of the array start, step and length, none of which is 0; the axes that the result keeps.
struct Part {
  int32_t ndim = 0;
  int64_t starts[MX_MAX_NDIM], steps[MX_MAX_NDIM], lengths[MX_MAX_NDIM];
  int32_t n_kept = 0;
  int64_t kept[MX_MAX_NDIM];

  // After the last element, as the operators' parameter: the same one for all extents of axes that are taken whole.
  int64_t end(int32_t axis, const Shape& dims) const {
    const int64_t end = starts[axis] + steps[axis] * lengths[axis];
    return end < 0 || (steps[axis] == 1 && lengths[axis] == dims[axis]) ? kOpen : end;
  }
};

bool is_one_run(const Part& part, const Shape& dims) {
  bool whole = true;  // every axis after this one is complete
  for (int32_t axis = part.ndim; axis-- > 0;) {
    if (part.lengths[axis] > 1 && (part.steps[axis] != 1 || !whole)) return false;
    whole = whole && part.lengths[axis] == dims[axis];
  }
  return true;
}

// False for keys that Python should judge.
bool resolve_part(const Shape& dims, PyObject* key, Part* part) {
  PyObject* single[] = {key};
  PyObject* const* items = single;
  Py_ssize_t n = 1;
  if (PyTuple_CheckExact(key) != 0) {
    items = PySequence_Fast_ITEMS(key);
    n = PyTuple_GET_SIZE(key);
  }
  if (n > 0 && items[n - 1] == Py_Ellipsis) --n;
  if (n > dims.ndim()) return false;
  for (; part->ndim < dims.ndim(); ++part->ndim) {
    const int32_t axis = part->ndim;
    const int64_t dim = dims[axis];
    Py_ssize_t start = 0, stop = 0, step = 1, length = dim;
    if (axis < n && PyLong_CheckExact(items[axis]) != 0) {
      int overflow = 0;
      const int64_t index = PyLong_AsLongLongAndOverflow(items[axis], &overflow);
      if (overflow != 0 || index < -dim || index >= dim) return false;
      start = index < 0 ? index + dim : index;
      length = 1;
    } else {
      if (axis < n) {
        if (PySlice_Check(items[axis]) == 0) return false;
        if (PySlice_Unpack(items[axis], &start, &stop, &step) != 0) throw PythonErrorSet{};
        length = PySlice_AdjustIndices(dim, &start, &stop, step);
        if (step > kWidestStep || step < -kWidestStep) return false;
      }
      part->kept[part->n_kept++] = length;
    }
    if (length == 0) return false;
    part->starts[axis] = start;
    part->steps[axis] = step;
    part->lengths[axis] = length;
  }
  return !is_one_run(*part, dims);
}

// By operator and part.
KeyedCache<Params>& known_parts() {
  static auto* known = new KeyedCache<Params>(kKnownParts);  // leaked: holds Python objects
  return *known;
}

Ref<Params> params_of(PyOperator& op, const Shape& dims, const Part& part) {
  CacheKey key;
  // Operators live as long as the process; another one of the name has another address.
  key.add(reinterpret_cast<uint64_t>(&op));
  for (int32_t axis = 0; axis < part.ndim; ++axis) {
    key.add(static_cast<uint64_t>(part.starts[axis]));
    key.add(static_cast<uint64_t>(part.end(axis, dims)));
    key.add(static_cast<uint64_t>(part.steps[axis]));
  }
  if (Ref<Params> known = known_parts().find(key)) return known;
  const auto n = static_cast<size_t>(part.ndim);
  py::tuple begin(n), end(n), step(n);
  bool stepping = false;
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<int32_t>(i);
    const int64_t last = part.end(axis, dims);
    begin[i] = py::int_(part.starts[axis]);
    end[i] = last == kOpen ? py::object(py::none()) : py::object(py::int_(last));
    step[i] = py::int_(part.steps[axis]);
    stepping = stepping || part.steps[axis] != 1;
  }
  if (!stepping) step = py::tuple();
  return known_parts().insert(key, op.params(hooks().part_params(op.property, begin, end, step)));
}

}  // namespace

PyObject* take_part(PyArray* self, PyObject* key) {
  const Shape& dims = self->array->shape();
  Part part;
  if (!resolve_part(dims, key, &part)) return nullptr;
  const bool reshaped = part.n_kept != part.ndim;
  if (reshaped && mode().recording) return nullptr;
  PyOperator& op = find_operator("slice");
  const Ref<Params> params = params_of(op, dims, part);
  const Value input = self->value();
  Invocation invocation;
  invocation.op = &op;
  invocation.params = params.get();
  invocation.inputs = &input;
  invocation.n_inputs = 1;
  invocation.origin = origin();
  std::vector<Value> results;
  invoke(invocation, results);
  if (!reshaped) return wrap(std::move(results.at(0)));
  Array& made = *results.at(0).array;
  return wrap({made.view(0, made.dtype(), Shape(part.n_kept, part.kept)), nullptr, 0});
}

bool fill_part(PyArray* self, PyObject* key, double number) {
  if (mode().recording) return false;  // the tape needs parameters that hold the number
  const Shape& dims = self->array->shape();
  Part part;
  if (!resolve_part(dims, key, &part)) return false;
  PyOperator& op = find_operator("_slice_assign_scalar");
  const Ref<Params> params = params_of(op, dims, part);
  const Value input = self->value();
  Array* targets[] = {self->array};
  Invocation invocation;
  invocation.op = &op;
  invocation.params = params.get();
  invocation.scalars = &number;
  invocation.inputs = &input;
  invocation.n_inputs = 1;
  invocation.outputs = targets;
  invocation.n_outputs = 1;
  invocation.origin = origin();
  std::vector<Value> results;
  invoke(invocation, results);
  return true;
}

}  // namespace mx::nd
