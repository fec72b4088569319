// SPDX-License-Identifier: Apache-2.0
//
// CPython types whose instances are used like functions: called by vectorcall, with a __dict__, bound as a
// method where they are found on a class.
#pragma once

#include <cstddef>
#include <vector>

#include "bindings.hpp"

#include <structmember.h>

namespace mx::nd {

// What each such object begins with.
struct FunctionHead {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* dictionary;  // __name__, __doc__, __signature__, ...
};

// The type of `Self`, a standard-layout struct that begins with `FunctionHead head` and has
//   static PyObject* create(PyTypeObject*, PyObject* argument)  a new object; throws
//   PyObject* held                                              a reference the collector is told of, or NULL
//   void destroy() noexcept                                     frees what the rest owns
//   PyObject* repr() const noexcept
template <class Self>
class FunctionType {
 public:
  // A new reference.  `name` and `methods` (may be NULL) live as long as the process.
  static PyObject* make(const char* name, PyMethodDef* methods) {
    static PyMemberDef members[] = {
        {"__dictoffset__", T_PYSSIZET, offsetof(FunctionHead, dictionary), READONLY, nullptr},
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionHead, vectorcall), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr}};
    static PyGetSetDef attributes[] = {
        {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr}};
    std::vector<PyType_Slot> slots = {
        {Py_tp_new, slot(create)},           {Py_tp_dealloc, slot(dealloc)},
        {Py_tp_traverse, slot(traverse)},    {Py_tp_clear, slot(clear)},
        {Py_tp_call, slot(PyVectorcall_Call)}, {Py_tp_repr, slot(repr)},
        {Py_tp_descr_get, slot(bind)},       {Py_tp_members, members},
        {Py_tp_getset, attributes}};
    if (methods != nullptr) slots.push_back({Py_tp_methods, methods});
    slots.push_back({0, nullptr});
    PyType_Spec spec = {name, sizeof(Self), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                            Py_TPFLAGS_METHOD_DESCRIPTOR,
                        slots.data()};
    return owned(PyType_FromSpec(&spec));
  }

 private:
  template <class F>
  static void* slot(F* function) {
    return reinterpret_cast<void*>(function);
  }
  static Self* self(PyObject* object) noexcept { return reinterpret_cast<Self*>(object); }

  static PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
    return protect([&] {
      PyObject* argument = nullptr;
      if (PyArg_ParseTuple(args, "O", &argument) == 0) throw PythonErrorSet{};
      return Self::create(type, argument);
    });
  }
  static int traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self(object)->head.dictionary);
    Py_VISIT(self(object)->held);
    return 0;
  }
  static int clear(PyObject* object) {
    Py_CLEAR(self(object)->head.dictionary);
    Py_CLEAR(self(object)->held);
    return 0;
  }
  static void dealloc(PyObject* object) {
    PyObject_GC_UnTrack(object);
    clear(object);
    self(object)->destroy();
    PyTypeObject* type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
  }
  static PyObject* repr(PyObject* object) { return self(object)->repr(); }
  // As a method it takes the instance as its first argument.
  static PyObject* bind(PyObject* object, PyObject* instance, PyObject*) {
    if (instance == nullptr || instance == Py_None) {
      Py_INCREF(object);
      return object;
    }
    return PyMethod_New(object, instance);
  }
};

}  // namespace mx::nd
