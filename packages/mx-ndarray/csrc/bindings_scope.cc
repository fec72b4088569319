// SPDX-License-Identifier: Apache-2.0
//
// `with` blocks that change the state of a thread. They are native: Ctrl-C raises between two steps of Python code, and
// none lies between the change and the handler that undoes it.
#include <vector>

#include "bindings.hpp"

namespace mx::nd {
namespace {

// What a scope sets, and what was there before. Absent: left as it is.
struct Change {
  int recording = -1, training = -1;  // 0 or 1; -1: absent
  bool sets_priority = false;
  int32_t priority = 0;
};

// Sets what `wanted` says, and returns what was there.
Change exchange(const Change& wanted) noexcept {
  Mode& now = mode();
  Change former = wanted;
  if (wanted.recording >= 0) former.recording = std::exchange(now.recording, wanted.recording == 1) ? 1 : 0;
  if (wanted.training >= 0) former.training = std::exchange(now.training, wanted.training == 1) ? 1 : 0;
  if (wanted.sets_priority) former.priority = std::exchange(now.priority, wanted.priority);
  return former;
}

struct Entered {
  const Mode* thread;
  Change former;
};

// Threads: any, the GIL is held; each thread leaves what it entered.
struct Scope {
  PyObject_HEAD
  Change wanted;
  std::vector<Entered>* entered;  // Owns

  static Scope* of(PyObject* object) noexcept { return reinterpret_cast<Scope*>(object); }
};

int flag(PyObject* object) {
  if (object == Py_None) return -1;
  const int truth = PyObject_IsTrue(object);
  if (truth < 0) throw PythonErrorSet{};
  return truth;
}

PyObject* scope_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return protect([&] {
    PyObject *recording = nullptr, *training = nullptr, *priority = nullptr;
    if (PyArg_ParseTuple(args, "OOO", &recording, &training, &priority) == 0) throw PythonErrorSet{};
    Change wanted;
    wanted.recording = flag(recording);
    wanted.training = flag(training);
    if (priority != Py_None) {
      wanted.sets_priority = true;
      wanted.priority = py::handle(priority).cast<int32_t>();
    }
    auto entered = std::make_unique<std::vector<Entered>>();
    PyObject* object = owned(type->tp_alloc(type, 0));
    Scope::of(object)->wanted = wanted;
    Scope::of(object)->entered = entered.release();
    return object;
  });
}

void scope_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_IS_GC(type)) PyObject_GC_UnTrack(object);
  delete Scope::of(object)->entered;
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* scope_enter(PyObject* object, PyObject*) {
  return protect([&] {
    std::vector<Entered>& entered = *Scope::of(object)->entered;
    entered.push_back({&mode(), {}});  // before anything changes: it may fail
    entered.back().former = exchange(Scope::of(object)->wanted);
    Py_INCREF(object);
    return object;
  });
}

PyObject* scope_exit(PyObject* object, PyObject* const*, Py_ssize_t) {
  return protect([&]() -> PyObject* {
    std::vector<Entered>& entered = *Scope::of(object)->entered;
    auto last = entered.rbegin();
    while (last != entered.rend() && last->thread != &mode()) ++last;
    if (last == entered.rend()) throw Error(MX_ERROR, "[autograd] this thread leaves a block that it has not entered");
    exchange(last->former);
    entered.erase(std::next(last).base());
    Py_RETURN_NONE;
  });
}

template <class F>
PyCFunction method(F* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef scope_methods[] = {
    {"__enter__", method(scope_enter), METH_NOARGS, "Changes the thread's state."},
    {"__exit__", method(scope_exit), METH_FASTCALL, "Brings back what was before."},
    {nullptr, nullptr, 0, nullptr}};

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

void register_scope(py::module_& module) {
  PyType_Slot slots[] = {{Py_tp_new, slot(scope_new)},
                         {Py_tp_dealloc, slot(scope_dealloc)},
                         {Py_tp_methods, scope_methods},
                         {0, nullptr}};
  PyType_Spec spec = {"mx_ndarray._core.Scope", sizeof(Scope), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  module.add_object("Scope", py::reinterpret_steal<py::object>(owned(PyType_FromSpec(&spec))));
}

}  // namespace mx::nd
