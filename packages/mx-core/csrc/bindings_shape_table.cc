// SPDX-License-Identifier: Apache-2.0
#include "bindings_shape_table.hpp"

#include <structmember.h>

#include <cstddef>
#include <cstdint>

#include "mx_core/abi.h"

namespace mx::core {
namespace {

struct ShapeTable {
  PyObject_HEAD
  PyObject* where;  // what messages begin with
  PyObject* table;  // dict: name -> tuple or None
  char changed;     // bool
};

ShapeTable* self_of(PyObject* object) noexcept { return reinterpret_cast<ShapeTable*>(object); }

// Extents of a shape: all known, some −1, or none that this file looks at.
enum class Form { kComplete, kPartial, kOther };

// Of an exact tuple of exact integers that says nothing impossible, as Shapes._merge checks it.
Form form_of(PyObject* shape) noexcept {
  if (PyTuple_CheckExact(shape) == 0 || PyTuple_GET_SIZE(shape) > MX_MAX_NDIM) return Form::kOther;
  bool partial = false, overflows = false;
  int64_t elements = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    PyObject* item = PyTuple_GET_ITEM(shape, i);
    if (PyLong_CheckExact(item) == 0) return Form::kOther;
    int overflow = 0;
    const int64_t extent = PyLong_AsLongLongAndOverflow(item, &overflow);
    if (overflow != 0 || extent < -1) return Form::kOther;
    partial = partial || extent == -1;
    overflows = __builtin_mul_overflow(elements, extent > 0 ? extent : 1, &elements) || overflows;
  }
  if (overflows) return Form::kOther;
  return partial ? Form::kPartial : Form::kComplete;
}

// Whether two shapes are equal; −1 with an error.  Comparing may run Python, which may change what is known.
int equal(PyObject* a, PyObject* b) noexcept {
  if (a == b) return 1;
  Py_INCREF(a);
  Py_INCREF(b);
  const int same = PyObject_RichCompareBool(a, b, Py_EQ);
  Py_DECREF(a);
  Py_DECREF(b);
  return same;
}

// Calls a method of the derived class with one or two arguments.
PyObject* in_python(PyObject* self, const char* method, PyObject* first, PyObject* second = nullptr) noexcept {
  PyObject* name = PyUnicode_InternFromString(method);
  if (name == nullptr) return nullptr;
  PyObject* result = PyObject_CallMethodObjArgs(self, name, first, second, nullptr);
  Py_DECREF(name);
  return result;
}

// What is known of a name, borrowed: the table has it as long as nothing else is said. NULL with an error.
PyObject* find(PyObject* self, PyObject* name) noexcept {
  PyObject* table = self_of(self)->table;
  PyObject* found = table == nullptr ? nullptr : PyDict_GetItemWithError(table, name);
  if (found == nullptr && PyErr_Occurred() == nullptr) {
    PyObject* result = in_python(self, "_unknown", name);
    if (result != nullptr) PyErr_SetObject(PyExc_KeyError, name);
    Py_XDECREF(result);
  }
  return found;
}

PyObject* owned_or_null(PyObject* object) noexcept {
  Py_XINCREF(object);
  return object;
}

bool expect(Py_ssize_t given, Py_ssize_t wanted, const char* method) noexcept {
  if (given == wanted) return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, got %zd", method, wanted, given);
  return false;
}

int initialize(PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
  static const char* names[] = {"where", "names", "values", nullptr};
  PyObject *where = nullptr, *keys = nullptr, *values = nullptr;
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "OOO", const_cast<char**>(names), &where, &keys, &values) == 0) return -1;
  PyObject* key_list = PySequence_Fast(keys, "names: expected a sequence");
  PyObject* value_list = key_list == nullptr ? nullptr : PySequence_Fast(values, "values: expected a sequence");
  PyObject* table = value_list == nullptr ? nullptr : PyDict_New();
  bool good = table != nullptr;
  if (good && PySequence_Fast_GET_SIZE(key_list) != PySequence_Fast_GET_SIZE(value_list)) {
    PyErr_Format(PyExc_ValueError, "expected a shape or None for each of %zd names, got %zd",
                 PySequence_Fast_GET_SIZE(key_list), PySequence_Fast_GET_SIZE(value_list));
    good = false;
  }
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(key_list); ++i)
    good = PyDict_SetItem(table, PySequence_Fast_GET_ITEM(key_list, i), PySequence_Fast_GET_ITEM(value_list, i)) == 0;
  Py_XDECREF(key_list);
  Py_XDECREF(value_list);
  if (!good) {
    Py_XDECREF(table);
    return -1;
  }
  Py_INCREF(where);
  Py_XSETREF(self_of(self)->where, where);
  Py_XSETREF(self_of(self)->table, table);
  self_of(self)->changed = 0;
  return 0;
}

PyObject* get(PyObject* self, PyObject* name) noexcept { return owned_or_null(find(self, name)); }

PyObject* ranked(PyObject* self, PyObject* name) noexcept {
  PyObject* shape = find(self, name);
  if (shape != Py_None) return owned_or_null(shape);
  PyErr_Format(PyExc_AssertionError, "%S: its rank is not known", name);
  return nullptr;
}

// Whether a shape has no extent −1; −1 with an error.
int is_complete(PyObject* shape) noexcept {
  if (shape == Py_None) return 0;
  const Form form = form_of(shape);
  if (form != Form::kOther) return form == Form::kComplete ? 1 : 0;
  PyObject* unknown = PyLong_FromLong(-1);
  const int has = unknown == nullptr ? -1 : PySequence_Contains(shape, unknown);
  Py_XDECREF(unknown);
  return has < 0 ? -1 : 1 - has;
}

PyObject* known(PyObject* self, PyObject* name) noexcept {
  PyObject* shape = get(self, name);
  const int complete = shape == nullptr ? -1 : is_complete(shape);
  if (complete == 1) return shape;
  Py_XDECREF(shape);
  return complete < 0 ? nullptr : owned_or_null(Py_None);
}

// 0, or −1 with an error.
int state(PyObject* self, PyObject* name, PyObject* shape) noexcept {
  if (shape == Py_None) return 0;
  PyObject* old = find(self, name);
  if (old == nullptr) return -1;
  if (form_of(shape) != Form::kOther) {
    if (old == Py_None) {
      if (PyDict_SetItem(self_of(self)->table, name, shape) != 0) return -1;
      self_of(self)->changed = 1;
      return 0;
    }
    const int same = PyTuple_CheckExact(old) == 0 ? 0 : equal(old, shape);
    if (same != 0) return same < 0 ? -1 : 0;
  }
  PyObject* result = in_python(self, "_merge", name, shape);
  Py_XDECREF(result);
  return result == nullptr ? -1 : 0;
}

PyObject* assign(PyObject* self, PyObject* const* args, Py_ssize_t n) noexcept {
  if (!expect(n, 2, "assign") || state(self, args[0], args[1]) != 0) return nullptr;
  Py_RETURN_NONE;
}

// The first complete one; Py_None where there is none, or where others differ from it.  A new reference; NULL with an
// error.
PyObject* agreed(PyObject* self, PyObject* names, bool* nothing) noexcept {
  PyObject* complete = Py_None;
  *nothing = true;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(names); ++i) {
    PyObject* shape = find(self, PySequence_Fast_GET_ITEM(names, i));
    if (shape == nullptr) return nullptr;
    *nothing = *nothing && shape == Py_None;
    if (complete == Py_None && form_of(shape) == Form::kComplete) complete = shape;
  }
  Py_INCREF(complete);
  for (Py_ssize_t i = 0; complete != Py_None && i < PySequence_Fast_GET_SIZE(names); ++i) {
    PyObject* shape = find(self, PySequence_Fast_GET_ITEM(names, i));
    const int same = shape == nullptr ? -1 : shape == Py_None ? 1 : equal(shape, complete);
    if (same == 1) continue;
    Py_DECREF(complete);
    if (same < 0) return nullptr;
    complete = owned_or_null(Py_None);
  }
  return complete;
}

PyObject* unify(PyObject* self, PyObject* given) noexcept {
  PyObject* names = PySequence_Fast(given, "names: expected a sequence");
  if (names == nullptr) return nullptr;
  bool nothing = false;
  PyObject* complete = agreed(self, names, &nothing);
  PyObject* result = nullptr;
  if (complete == Py_None && !nothing) {
    result = in_python(self, "_unify", names);
  } else if (complete != nullptr) {
    bool good = true;
    for (Py_ssize_t i = 0; good && complete != Py_None && i < PySequence_Fast_GET_SIZE(names); ++i)
      good = state(self, PySequence_Fast_GET_ITEM(names, i), complete) == 0;
    result = good ? owned_or_null(Py_None) : nullptr;
  }
  Py_XDECREF(complete);
  Py_DECREF(names);
  return result;
}

PyObject* values(PyObject* self, PyObject* given) noexcept {
  PyObject* names = PySequence_Fast(given, "names: expected a sequence");
  if (names == nullptr) return nullptr;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(names);
  PyObject* made = PyTuple_New(n);
  for (Py_ssize_t i = 0; made != nullptr && i < n; ++i) {
    PyObject* shape = find(self, PySequence_Fast_GET_ITEM(names, i));
    if (shape == nullptr) Py_CLEAR(made);
    else PyTuple_SET_ITEM(made, i, owned_or_null(shape));
  }
  Py_DECREF(names);
  return made;
}

PyObject* complete(PyObject* self, PyObject* names) noexcept {
  PyObject* made = values(self, names);
  for (Py_ssize_t i = 0; made != nullptr && i < PyTuple_GET_SIZE(made); ++i) {
    const int whole = is_complete(PyTuple_GET_ITEM(made, i));
    if (whole == 1) continue;
    Py_DECREF(made);
    return whole < 0 ? nullptr : owned_or_null(Py_None);
  }
  return made;
}

int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(self_of(self)->where);
  Py_VISIT(self_of(self)->table);
  return 0;
}

int clear(PyObject* self) noexcept {
  Py_CLEAR(self_of(self)->where);
  Py_CLEAR(self_of(self)->table);
  return 0;
}

void deallocate(PyObject* self) noexcept {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

}  // namespace

PyObject* make_shape_table_type() noexcept {
  static PyMethodDef methods[] = {
      {"get", get, METH_O, "get(name)\n--\n\nThe shape with −1 for unknown dimensions, or None."},
      {"ranked", ranked, METH_O,
       "ranked(name)\n--\n\nThe shape with −1 for unknown dimensions, of a tensor whose rank is known."},
      {"known", known, METH_O, "known(name)\n--\n\nThe shape if it is complete, or None."},
      {"assign", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(assign)), METH_FASTCALL,
       "assign(name, shape)\n--\n\nAdds knowledge about a shape; ShapeError when it contradicts, with both."},
      {"unify", unify, METH_O, "unify(names)\n--\n\nStates that all these shapes are equal."},
      {"values", values, METH_O, "values(names)\n--\n\nCurrent knowledge in the order of `names`."},
      {"complete", complete, METH_O, "complete(names)\n--\n\nThe shapes if all are complete, or None."},
      {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef members[] = {
      {"where", T_OBJECT, offsetof(ShapeTable, where), 0, "What messages begin with."},
      {"changed", T_BOOL, offsetof(ShapeTable, changed), 0, "Whether anything was added."},
      {"_table", T_OBJECT, offsetof(ShapeTable, table), READONLY, "Shapes by name."},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_init, reinterpret_cast<void*>(initialize)},
                                {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_methods, methods},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec = {"mx_core._native.ShapeTable", sizeof(ShapeTable), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return PyType_FromSpec(&spec);
}

}  // namespace mx::core
