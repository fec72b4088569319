// SPDX-License-Identifier: Apache-2.0
//
// NDArrayBase: the instance and its attributes.
#include <cstddef>

#include "bindings.hpp"

#include <structmember.h>

namespace mx::nd {
namespace {

PyTypeObject* base_type = nullptr;

void array_dealloc(PyObject* object) {
  auto* self = as_array(object);
  PyTypeObject* type = Py_TYPE(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  if (Node* node = self->node.load(std::memory_order_relaxed)) node->release();
  if (self->array != nullptr) self->array->release();
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* array_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError, "NDArray is made by array(), zeros(), ...; not by calling it");
  return nullptr;
}

template <Binary which>
PyObject* number(PyObject* lhs, PyObject* rhs) {
  return binary(which, lhs, rhs, false);
}
template <Binary which>
PyObject* in_place(PyObject* lhs, PyObject* rhs) {
  return binary(which, lhs, rhs, true);
}
// Python finds `__iadd__` of a class written in Python in the slot of sequences as well, which must not
// answer NotImplemented: that would become the value of `a += b`.
PyObject* in_place_add(PyObject* lhs, PyObject* rhs) {
  PyObject* result = binary(Binary::kAdd, lhs, rhs, true);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  return PyNumber_Add(lhs, rhs);
}
// `a **= b` makes a new array, as in MXNet, which has no form in place.
PyObject* power(PyObject* lhs, PyObject* rhs, PyObject* modulo) {
  if (modulo != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow() with a modulus is not offered for NDArray");
    return nullptr;
  }
  return binary(Binary::kPow, lhs, rhs, false);
}

PyObject* compare(PyObject* lhs, PyObject* rhs, int op) {
  switch (op) {
    case Py_LT: return binary(Binary::kLt, lhs, rhs, false);
    case Py_LE: return binary(Binary::kLe, lhs, rhs, false);
    case Py_EQ: return binary(Binary::kEq, lhs, rhs, false);
    case Py_NE: return binary(Binary::kNe, lhs, rhs, false);
    case Py_GT: return binary(Binary::kGt, lhs, rhs, false);
    default: return binary(Binary::kGe, lhs, rhs, false);
  }
}

// By identity, as two equal arrays stay two arrays.
Py_hash_t hash(PyObject* self) { return _Py_HashPointer(self); }

PyObject* get_shape(PyObject* self, void*) {
  return protect([&] {
    Array& array = *as_array(self)->array;
    wait_for_shape(array);
    return shape_tuple(array.shape()).release().ptr();
  });
}
PyObject* get_size(PyObject* self, void*) {
  return protect([&] {
    Array& array = *as_array(self)->array;
    wait_for_shape(array);
    return owned(PyLong_FromLongLong(array.size()));
  });
}
PyObject* get_ndim(PyObject* self, void*) {
  return protect([&] {
    Array& array = *as_array(self)->array;
    wait_for_shape(array);
    return owned(PyLong_FromLong(array.shape().ndim()));
  });
}
PyObject* get_dtype(PyObject* self, void*) {
  return protect([&] {
    const py::dtype dtype = numpy_dtype(as_array(self)->array->dtype());
    return py::object(dtype.attr("type")).release().ptr();
  });
}
PyObject* get_dtype_code(PyObject* self, void*) {
  return PyLong_FromLong(as_array(self)->array->dtype());
}
PyObject* get_context(PyObject* self, void*) {
  return protect([&] { return context_object(as_array(self)->array->context()); });
}
PyObject* get_writable(PyObject* self, void*) {
  return PyBool_FromLong(as_array(self)->writable ? 1 : 0);
}
int set_writable(PyObject* self, PyObject* value, void*) {
  const int is_true = value == nullptr ? 0 : PyObject_IsTrue(value);
  if (is_true < 0) return -1;
  as_array(self)->writable = is_true == 1;
  return 0;
}
PyObject* get_fresh_grad(PyObject* self, void*) {
  const Ref<Node> node = as_array(self)->shared_node();
  return PyBool_FromLong(node && node->fresh ? 1 : 0);
}
int set_fresh_grad(PyObject* self, PyObject* value, void*) {
  const int is_true = value == nullptr ? 0 : PyObject_IsTrue(value);
  if (is_true < 0) return -1;
  const Ref<Node> node = as_array(self)->shared_node();
  if (node) node->fresh = is_true == 1;
  return 0;
}
PyObject* get_error(PyObject* self, void*) {
  return protect([&] { return error_of(*as_array(self)->array).release().ptr(); });
}
PyObject* get_grad(PyObject* self, void*) {
  return protect([&]() -> PyObject* {
    const Ref<Node> node = as_array(self)->shared_node();
    if (!node || !node->grad) Py_RETURN_NONE;
    return wrap({node->grad, nullptr, 0});
  });
}
PyObject* get_has_gradients(PyObject* self, void*) {
  return PyBool_FromLong(as_array(self)->array->chunk().has_gradients() ? 1 : 0);
}

PyObject* get_recorded(PyObject* self, void*) {
  return PyBool_FromLong(as_array(self)->recorded() ? 1 : 0);
}
PyObject* get_handle(PyObject* self, void*) {
  return PyLong_FromVoidPtr(as_array(self)->array);
}

PyObject* get_extent(PyObject* self, void*) {
  const Array& array = *as_array(self)->array;
  void* memory = &array.chunk();
  return Py_BuildValue("Nnn", PyLong_FromVoidPtr(memory), static_cast<Py_ssize_t>(array.offset()),
                       static_cast<Py_ssize_t>(array.offset() + array.bytes()));
}

PyObject* wait_to_read(PyObject* self, PyObject*) {
  return protect([&]() -> PyObject* {
    wait(*as_array(self)->array, false);
    Py_RETURN_NONE;
  });
}
PyObject* wait_to_write(PyObject* self, PyObject*) {
  return protect([&]() -> PyObject* {
    wait(*as_array(self)->array, true);
    Py_RETURN_NONE;
  });
}
PyObject* detach(PyObject* self, PyObject*) {
  return protect([&] { return wrap({Ref<Array>::share(as_array(self)->array), nullptr, 0}); });
}

constexpr const char* kReshapeDoc =
    "A view with another shape.\n\nParameters\n----------\nshape : ints or one tuple\n"
    "    0 keeps the axis, -1 is inferred, -2 keeps all remaining axes, -3 merges two axes, -4\n"
    "    splits one into the two sizes that follow.\nreverse : bool\n"
    "    Read the codes from the right.";

PyMethodDef array_methods[] = {
    {"wait_to_read", wait_to_read, METH_NOARGS,
     "Blocks until the array is computed; raises the failure of what should have computed it."},
    {"wait_to_write", wait_to_write, METH_NOARGS,
     "Blocks until the array is computed and nobody reads it."},
    {"reshape", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&reshape)),
     METH_FASTCALL | METH_KEYWORDS, kReshapeDoc},
    {"asscalar", as_scalar, METH_NOARGS,
     "The only element as a NumPy scalar; blocks.\n\nRaises\n------\nArgumentError\n"
     "    The array has not exactly one element."},
    {"detach", detach, METH_NOARGS, "The same memory, outside any computational graph."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef array_attributes[] = {
    {"shape", get_shape, nullptr, "Elements per axis; waits if the operator decides it.", nullptr},
    {"size", get_size, nullptr, "Number of elements.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of axes.", nullptr},
    {"dtype", get_dtype, nullptr, "NumPy scalar type of the elements.", nullptr},
    {"_dtype_code", get_dtype_code, nullptr, "Type code.", nullptr},
    {"context", get_context, nullptr, "Device of the memory.", nullptr},
    {"ctx", get_context, nullptr, "Device of the memory.", nullptr},
    {"writable", get_writable, set_writable, "False for arrays that must not be assigned to.", nullptr},
    {"_fresh_grad", get_fresh_grad, set_fresh_grad, "Whether backward has filled the gradient.",
     nullptr},
    {"error", get_error, nullptr, "The exception that kept it from being computed, or None.",
     nullptr},
    {"grad", get_grad, nullptr, "The gradient array of attach_grad, or None.", nullptr},
    {"_has_gradients", get_has_gradients, nullptr, "True when its memory holds gradients of leaves.", nullptr},
    {"_recorded", get_recorded, nullptr, "True when it is part of a computational graph.", nullptr},
    {"handle", get_handle, nullptr, "Address of the native mx_array (borrowed), which executors pass to the invoke table.", nullptr},
    {"_extent", get_extent, nullptr, "A number for the piece of memory it lies in, its first byte there and the one behind it.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef array_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyArray, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

PyType_Slot array_slots[] = {
    {Py_tp_new, slot(array_new)},
    {Py_tp_dealloc, slot(array_dealloc)},
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_attributes},
    {Py_tp_members, array_members},
    {Py_tp_richcompare, slot(compare)},
    {Py_tp_hash, slot(hash)},
    {Py_mp_subscript, slot(subscript)},
    {Py_mp_ass_subscript, slot(assign_subscript)},
    {Py_nb_add, slot(number<Binary::kAdd>)},
    {Py_nb_subtract, slot(number<Binary::kSub>)},
    {Py_nb_multiply, slot(number<Binary::kMul>)},
    {Py_nb_true_divide, slot(number<Binary::kDiv>)},
    {Py_nb_remainder, slot(number<Binary::kMod>)},
    {Py_nb_power, slot(power)},
    {Py_nb_inplace_add, slot(in_place_add)},
    {Py_nb_inplace_subtract, slot(in_place<Binary::kSub>)},
    {Py_nb_inplace_multiply, slot(in_place<Binary::kMul>)},
    {Py_nb_inplace_true_divide, slot(in_place<Binary::kDiv>)},
    {Py_nb_inplace_remainder, slot(in_place<Binary::kMod>)},
    {Py_tp_doc, const_cast<char*>("The native part of NDArray: memory, variable, graph node.")},
    {0, nullptr}};

PyType_Spec array_spec = {"mx_ndarray._core.NDArrayBase", sizeof(PyArray), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, array_slots};

}  // namespace

PyTypeObject* array_base_type() noexcept { return base_type; }

PyArray* expect_array(PyObject* object, const char* what) {
  if (!is_array(object)) {
    PyErr_Format(PyExc_TypeError, "%s: expected an NDArray, got %s", what,
                 Py_TYPE(object)->tp_name);
    throw PythonErrorSet{};
  }
  return as_array(object);
}

PyObject* wrap(Value value) {
  PyTypeObject* type = hooks().array_class;
  PyObject* object = owned(type->tp_alloc(type, 0));
  auto* self = as_array(object);
  self->array = value.array.detach();
  self->node = value.node.detach();
  self->index = value.index;
  self->writable = !self->array->chunk().read_only();
  self->weak_references = nullptr;
  return object;
}

void set_node(PyArray* self, Ref<Node> node, uint32_t index) noexcept {
  Ref<Node> old;  // goes after the section: what it frees may run Python
  const CriticalSection section(reinterpret_cast<PyObject*>(self));
  old = Ref<Node>::adopt(self->node.exchange(node.detach(), std::memory_order_relaxed));
  self->index = index;
}

void register_array(py::module_& module) {
  base_type = reinterpret_cast<PyTypeObject*>(owned(PyType_FromSpec(&array_spec)));
  module.add_object("NDArrayBase", reinterpret_cast<PyObject*>(base_type));
  module.def("waitall", [] { translated([] { wait_all(); }); },
             "Blocks until nothing is pending; raises the first failure.");
  module.def(
      "take_array",
      [](const py::object& array, const py::object& other) {
        translated([&] {
          PyArray* self = expect_array(array.ptr(), "array");
          PyArray* source = expect_array(other.ptr(), "other");
          wait_for_shape(*self->array);
          if (self->array->size() != 0) {
            throw Error(MX_ERROR, "[NDArray] expected an array without elements, which nobody computes with");
          }
          const Ref<Array> old = Ref<Array>::adopt(self->array);
          self->array = Ref<Array>::share(source->array).detach();
          self->writable = source->writable.load();
        });
      },
      "Makes an array without elements the same as another one: how pickles of MXNet are read.");
}

}  // namespace mx::nd
