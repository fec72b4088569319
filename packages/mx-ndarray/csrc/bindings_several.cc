// SPDX-License-Identifier: Apache-2.0
//
// What callers ask of several arrays at once: one call where Python would ask each.
#include "bindings.hpp"

#include <cstring>

namespace mx::nd {
namespace {

// The items of a tuple, or of a list as it is now: other threads may run while a shape is awaited.
struct Items {
  py::object owner;
  PyObject** first;
  Py_ssize_t n;

  explicit Items(PyObject* sequence)
      : owner(py::reinterpret_steal<py::object>(owned(PySequence_Tuple(sequence)))),
        first(PySequence_Fast_ITEMS(owner.ptr())),
        n(PyTuple_GET_SIZE(owner.ptr())) {}
  PyArray* operator()(Py_ssize_t i, const char* what) const { return expect_array(first[i], what); }
};

bool same(mx_context a, mx_context b) noexcept { return a.type == b.type && a.id == b.id; }

// Appends plain values; what was appended is compared, never read back.
class Key {
 public:
  explicit Key(char first) { bytes_.push_back(first); }
  template <class T>
  void add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  PyObject* object() const {
    return owned(PyBytes_FromStringAndSize(bytes_.data(), static_cast<Py_ssize_t>(bytes_.size())));
  }

 private:
  std::string bytes_;
};

constexpr const char* kCall = "[CachedOp]";

// Its first byte: bit 0 when the call is to be recorded, bit 1 in training, bit 2 when it is to be recorded with arrays
// whose memory holds gradients of leaves.
PyObject* signature_key(PyObject*, PyObject* sequence) {
  return protect([&] {
    const Items items(sequence);
    const Mode now = mode();
    bool recorded = false, gradients = false;
    for (Py_ssize_t i = 0; i < items.n; ++i) {
      const PyArray* each = items(i, kCall);
      wait_for_shape(*each->array);
      recorded = recorded || (now.recording && each->recorded());
      gradients = gradients || each->array->chunk().has_gradients();
    }
    Key key(static_cast<char>((recorded ? 1 : 0) | (now.training ? 2 : 0) | (recorded && gradients ? 4 : 0)));
    const mx_context context = items.n == 0 ? current_context() : items(0, kCall)->array->context();
    key.add(context.type);
    key.add(context.id);
    for (Py_ssize_t i = 0; i < items.n; ++i) {
      const PyArray* each = items(i, kCall);
      const Shape& shape = each->array->shape();
      key.add(each->array->dtype());
      key.add(shape.ndim());
      for (int32_t axis = 0; axis < shape.ndim(); ++axis) key.add(shape[axis]);
      key.add(now.recording && each->recorded());
    }
    return key.object();
  });
}

PyObject* handles(PyObject*, PyObject* sequence) {
  return protect([&] {
    const Items items(sequence);
    PyObject* bytes = owned(PyBytes_FromStringAndSize(nullptr, items.n * static_cast<Py_ssize_t>(sizeof(Array*))));
    const auto result = py::reinterpret_steal<py::object>(bytes);
    char* to = PyBytes_AS_STRING(bytes);
    for (Py_ssize_t i = 0; i < items.n; ++i) {
      Array* array = items(i, "[Program]")->array;
      std::memcpy(to + i * static_cast<Py_ssize_t>(sizeof array), &array, sizeof array);
    }
    return py::object(result).release().ptr();
  });
}

PyObject* common_context(PyObject*, PyObject* sequence) {
  return protect([&]() -> PyObject* {
    const Items items(sequence);
    for (Py_ssize_t i = 0; i < items.n; ++i) {
      if (!is_array(items.first[i]) ||
          !same(as_array(items.first[i])->array->context(), as_array(items.first[0])->array->context())) {
        Py_RETURN_NONE;
      }
    }
    if (items.n == 0) Py_RETURN_NONE;
    return context_object(as_array(items.first[0])->array->context());
  });
}

PyObject* is_current_context(PyObject*, PyObject* context) {
  return protect([&] { return PyBool_FromLong(same(context_of(context), current_context()) ? 1 : 0); });
}

PyObject* are_alike(PyObject*, PyObject* sequence) {
  return protect([&]() -> PyObject* {
    const Items items(sequence);
    for (Py_ssize_t i = 0; i < items.n; ++i) {
      const Array& each = *items(i, "[NDArray]")->array;
      const Array& first = *items(0, "[NDArray]")->array;
      if (each.dtype() != first.dtype() || !same(each.context(), first.context())) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
  });
}

PyObject* first_stale(PyObject*, PyObject* sequence) {
  return protect([&] {
    const Items items(sequence);
    for (Py_ssize_t i = 0; i < items.n; ++i) {
      const Ref<Node> node = items(i, "[autograd]")->shared_node();
      if (!node || !node->fresh) return owned(PyLong_FromSsize_t(i));
    }
    return owned(PyLong_FromLong(-1));
  });
}

PyObject* make_stale(PyObject*, PyObject* sequence) {
  return protect([&]() -> PyObject* {
    const Items items(sequence);
    for (Py_ssize_t i = 0; i < items.n; ++i) {
      const Ref<Node> node = items(i, "[autograd]")->shared_node();
      if (node) node->fresh = false;
    }
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {
    {"signature_key", signature_key, METH_O,
     "What programs are compiled for, of the arrays of a call: context, types, shapes, what is recorded, mode.\n\n"
     "The first byte has bit 0 set when the call is to be recorded. Waits for shapes that operators decide."},
    {"handles", handles, METH_O, "Addresses of the native arrays, as bytes; borrowed from the list."},
    {"common_context", common_context, METH_O,
     "The context of several arrays; None if they are on different ones, one is no array, or there is none."},
    {"is_current_context", is_current_context, METH_O, "Whether it is the calling thread's default."},
    {"are_alike", are_alike, METH_O, "Whether all have one element type and one context."},
    {"first_stale", first_stale, METH_O,
     "The first leaf whose gradient backward has not written since `make_stale`; -1 if there is none."},
    {"make_stale", make_stale, METH_O, "Counts the gradients of leaves as used."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void register_several(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), functions) < 0) throw py::error_already_set();
}

}  // namespace mx::nd
