// SPDX-License-Identifier: Apache-2.0
#include "bindings_slot_initializer.hpp"

#include <structmember.h>

#include <cstddef>

namespace mx::core {
namespace {

constexpr Py_ssize_t kMost = 16;  // arguments

struct Initializer {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyTypeObject* of;
  PyObject* names;     // tuple of str
  PyObject* defaults;  // tuple, of the last names
  Py_ssize_t offsets[kMost];
};

Initializer* self_of(PyObject* object) noexcept { return reinterpret_cast<Initializer*>(object); }

// The argument of a name, or −1; −2 with an error.
Py_ssize_t find(const Initializer* self, PyObject* name) noexcept {
  const Py_ssize_t n = PyTuple_GET_SIZE(self->names);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (PyTuple_GET_ITEM(self->names, i) == name) return i;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const int same = PyObject_RichCompareBool(PyTuple_GET_ITEM(self->names, i), name, Py_EQ);
    if (same != 0) return same < 0 ? -2 : i;
  }
  return -1;
}

bool add_keywords(const Initializer* self, PyObject* const* given, PyObject* keywords, PyObject** values) noexcept {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keywords); ++k) {
    PyObject* name = PyTuple_GET_ITEM(keywords, k);
    const Py_ssize_t i = find(self, name);
    if (i == -2) return false;
    if (i < 0 || values[i] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s.__init__() got %s argument '%U'", self->of->tp_name,
                   i < 0 ? "an unexpected keyword" : "multiple values for", name);
      return false;
    }
    values[i] = given[k];
  }
  return true;
}

bool add_defaults(const Initializer* self, PyObject** values) noexcept {
  const Py_ssize_t n = PyTuple_GET_SIZE(self->names), first = n - PyTuple_GET_SIZE(self->defaults);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (values[i] != nullptr) continue;
    if (i < first) {
      PyErr_Format(PyExc_TypeError, "%s.__init__() missing required argument: '%U'", self->of->tp_name,
                   PyTuple_GET_ITEM(self->names, i));
      return false;
    }
    values[i] = PyTuple_GET_ITEM(self->defaults, i - first);
  }
  return true;
}

PyObject* call(PyObject* callable, PyObject* const* args, size_t flags, PyObject* keywords) noexcept {
  const Initializer* self = self_of(callable);
  const Py_ssize_t n = PyTuple_GET_SIZE(self->names), positional = PyVectorcall_NARGS(flags) - 1;
  if (positional < 0 || PyObject_TypeCheck(args[0], self->of) == 0) {
    PyErr_Format(PyExc_TypeError, "%s.__init__() expected an object of its class", self->of->tp_name);
    return nullptr;
  }
  if (positional > n) {
    PyErr_Format(PyExc_TypeError, "%s.__init__() takes %zd arguments, got %zd", self->of->tp_name, n, positional);
    return nullptr;
  }
  PyObject* values[kMost] = {};
  for (Py_ssize_t i = 0; i < positional; ++i) values[i] = args[1 + i];
  if (keywords != nullptr && !add_keywords(self, args + 1 + positional, keywords, values)) return nullptr;
  if (!add_defaults(self, values)) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    auto** slot = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(args[0]) + self->offsets[i]);
    Py_INCREF(values[i]);
    Py_XSETREF(*slot, values[i]);
  }
  Py_RETURN_NONE;
}

// Where a class has the slot of a name, or −1 with an error.
Py_ssize_t offset_of(PyTypeObject* of, PyObject* name) noexcept {
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(of), name);
  if (found == nullptr) return -1;
  Py_ssize_t offset = -1;
  if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
    if (member->type == T_OBJECT_EX) offset = member->offset;
  }
  Py_DECREF(found);
  if (offset < 0) PyErr_Format(PyExc_TypeError, "%s has no slot '%U'", of->tp_name, name);
  return offset;
}

PyObject* bind(PyObject* callable, PyObject* instance, PyObject*) noexcept {
  if (instance != nullptr && instance != Py_None) return PyMethod_New(callable, instance);
  Py_INCREF(callable);
  return callable;
}

int traverse(PyObject* object, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self_of(object)->of);
  Py_VISIT(self_of(object)->names);
  Py_VISIT(self_of(object)->defaults);
  return 0;
}

int clear(PyObject* object) noexcept {
  Py_CLEAR(self_of(object)->of);
  Py_CLEAR(self_of(object)->names);
  Py_CLEAR(self_of(object)->defaults);
  return 0;
}

void deallocate(PyObject* object) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyTypeObject* make_type() noexcept {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Initializer, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec = {"mx_core._native.SlotInitializer", sizeof(Initializer), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

PyObject* make_slot_initializer(PyTypeObject* of, PyObject* names, PyObject* defaults) noexcept {
  static PyTypeObject* const type = make_type();
  if (type == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "there is no type SlotInitializer");
    return nullptr;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(names);
  if (n > kMost || PyTuple_GET_SIZE(defaults) > n) {
    PyErr_Format(PyExc_TypeError, "expected at most %zd slots and no more defaults, got %zd and %zd", kMost, n,
                 PyTuple_GET_SIZE(defaults));
    return nullptr;
  }
  Initializer* made = PyObject_GC_New(Initializer, type);
  if (made == nullptr) return nullptr;
  Py_INCREF(of);
  Py_INCREF(names);
  Py_INCREF(defaults);
  made->vectorcall = call;
  made->of = of;
  made->names = names;
  made->defaults = defaults;
  PyObject_GC_Track(made);
  for (Py_ssize_t i = 0; i < n; ++i) {
    made->offsets[i] = offset_of(of, PyTuple_GET_ITEM(names, i));
    if (made->offsets[i] >= 0) continue;
    Py_DECREF(made);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(made);
}

}  // namespace mx::core
