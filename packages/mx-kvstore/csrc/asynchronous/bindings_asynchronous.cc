// SPDX-License-Identifier: Apache-2.0
//
// Operations of the engine that Python starts and another thread ends: what a store does with arrays while
// messages are under way.  Plain CPython API.
#include "mx_core/python.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "mx_core/intern.hpp"

namespace {

using mx::GilAcquire;
using mx::GilRelease;
using mx::PythonErrorSet;

constexpr const char* kConsumer = "mx-kvstore";
constexpr const char* kPending = "mx.kvstore.pending";

const mx_engine_api* engine = nullptr;  // retained; set once, before anything else is called
const mx_invoke_api* invoke = nullptr;

// What an operation needs until it has ended.
struct Operation {
  PyObject* function;             // strong
  std::vector<mx_array*> arrays;  // retained; those that are read, then those that are written
  size_t n_reads;

  Operation(PyObject* callable, size_t reads) : function(callable), n_reads(reads) { Py_INCREF(callable); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() {
    for (mx_array* array : arrays) invoke->array_release(invoke->self, array);
    mx::Reaper::instance().drop(function);
  }
};

void destroy(void* argument) { delete static_cast<Operation*>(argument); }

mx_failure* ended() noexcept {
  return mx::make_failure(MX_ERROR_SHUTDOWN, "the interpreter ended before the operation ran");
}

// A completion that nobody holds any more ends its operation all the same.
void drop_pending(PyObject* capsule) {
  auto* done = static_cast<mx_completion*>(PyCapsule_GetPointer(capsule, kPending));
  if (done == nullptr || PyCapsule_GetContext(capsule) != nullptr) return;
  const GilRelease nogil;
  engine->complete(engine->self, done, mx::make_failure(MX_ERROR, "the operation was given up"));
}

// The memory of an array as bytes; NULL with an exception set.
PyObject* memory_of(mx_array* array, bool writable) {
  mx_tensor tensor{};
  mx_error error{};
  const int32_t status = invoke->array_tensor(invoke->self, array, 1, &tensor, &error);
  if (status != MX_OK) {
    mx::raise_status(status, mx::said(status, error.message).c_str());
    return nullptr;
  }
  if (!mx_on_host(tensor.context)) {
    mx::raise_status(MX_ERROR_UNSUPPORTED, "[mx-kvstore] an array is not in main memory");
    return nullptr;
  }
  static char nothing = 0;
  char* data = tensor.data == nullptr ? &nothing : static_cast<char*>(tensor.data);
  const Py_ssize_t bytes = tensor.data == nullptr ? 0 : static_cast<Py_ssize_t>(tensor.bytes);
  return PyMemoryView_FromMemory(data, bytes, writable ? PyBUF_WRITE : PyBUF_READ);
}

// Calls function(pending, memory, ...); false with an exception set.
bool call(const Operation& operation, PyObject* capsule) {
  PyObject* arguments = PyTuple_New(static_cast<Py_ssize_t>(operation.arrays.size()) + 1);
  if (arguments == nullptr) return false;
  Py_INCREF(capsule);
  PyTuple_SET_ITEM(arguments, 0, capsule);
  for (size_t i = 0; i < operation.arrays.size(); ++i) {
    PyObject* memory = memory_of(operation.arrays[i], i >= operation.n_reads);
    if (memory == nullptr) {
      Py_DECREF(arguments);
      return false;
    }
    PyTuple_SET_ITEM(arguments, static_cast<Py_ssize_t>(i) + 1, memory);
  }
  PyObject* result = PyObject_CallObject(operation.function, arguments);
  Py_DECREF(arguments);
  Py_XDECREF(result);
  return result != nullptr;
}

// Ends the operation of a capsule; whether it had not ended yet.  GIL held.
bool finish(PyObject* capsule, mx_completion* done, mx_failure* failure) {
  bool ended = false;
  {
    const mx::CriticalSection section(capsule);
    ended = PyCapsule_GetContext(capsule) != nullptr;
    if (!ended) PyCapsule_SetContext(capsule, const_cast<char*>(kPending));
  }
  if (ended) {
    if (failure != nullptr) failure->release(failure);
    return false;
  }
  const GilRelease nogil;
  engine->complete(engine->self, done, failure);
  return true;
}

void start(void* argument, const mx_run_context*, mx_completion* done) {
  if (mx::interpreter_ends()) {
    engine->complete(engine->self, done, ended());
    return;
  }
  const GilAcquire gil;
  PyObject* capsule = PyCapsule_New(done, kPending, drop_pending);
  if (capsule == nullptr) {
    mx_failure* failure = mx::take_python_failure();
    const GilRelease nogil;
    engine->complete(engine->self, done, failure);
    return;
  }
  if (!call(*static_cast<Operation*>(argument), capsule)) finish(capsule, done, mx::take_python_failure());
  Py_DECREF(capsule);
}

// Retains the arrays whose addresses are in a tuple.
void take_arrays(PyObject* handles, Operation& operation, std::vector<mx_variable*>& variables) {
  const Py_ssize_t count = PyTuple_GET_SIZE(handles);
  for (Py_ssize_t i = 0; i < count; ++i) {
    auto* array = static_cast<mx_array*>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(handles, i)));
    if (array == nullptr) {
      if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "[push] expected handles of NDArrays");
      throw PythonErrorSet{};
    }
    invoke->array_retain(invoke->self, array);
    operation.arrays.push_back(array);
    variables.push_back(invoke->array_variable(invoke->self, array));
  }
}

// Views of one array have one variable, which the engine wants once, and as written if it is both.
void merge(std::vector<mx_variable*>& reads, std::vector<mx_variable*>& writes) {
  const auto once = [](std::vector<mx_variable*>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  once(reads);
  once(writes);
  const auto written = [&](mx_variable* v) { return std::binary_search(writes.begin(), writes.end(), v); };
  reads.erase(std::remove_if(reads.begin(), reads.end(), written), reads.end());
}

PyObject* configure(PyObject*, PyObject* arguments) {
  PyObject *engine_capsule = nullptr, *invoke_capsule = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &engine_capsule, &invoke_capsule) == 0) return nullptr;
  try {
    const auto* table = mx::import_plugin_table<mx_engine_api>(engine_capsule, MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR,
                                                               MX_ENGINE_API_SIZE_1_0, kConsumer);
    invoke = mx::import_table<mx_invoke_api>(invoke_capsule, MX_INVOKE_CAPSULE, MX_INVOKE_MAJOR, MX_INVOKE_MINOR,
                                             kConsumer);
    if (engine != table) table->retain(table->self);
    engine = table;
  } catch (const PythonErrorSet&) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* push_with(PyObject* function, const char* name, PyObject* reads, PyObject* writes, int priority) {
  auto operation = std::make_unique<Operation>(function, static_cast<size_t>(PyTuple_GET_SIZE(reads)));
  std::vector<mx_variable*> read, written;
  take_arrays(reads, *operation, read);
  take_arrays(writes, *operation, written);
  merge(read, written);
  mx_operation pushed{};
  pushed.size = sizeof pushed;
  pushed.flags = MX_PUSH_PYTHON;
  pushed.context = {MX_CPU, 0};
  pushed.property = MX_FN_ASYNC;
  pushed.priority = priority;
  pushed.name = mx::intern(name);
  pushed.reads = read.data();
  pushed.n_reads = static_cast<uint32_t>(read.size());
  pushed.writes = written.data();
  pushed.n_writes = static_cast<uint32_t>(written.size());
  pushed.run_async = start;
  pushed.argument = operation.release();
  pushed.destroy = destroy;
  mx_error error{};
  mx_failure* failure = nullptr;
  int32_t status = MX_OK;
  {
    const GilRelease nogil;  // a naive engine waits for the end of the operation
    status = engine->push(engine->self, &pushed, &failure, &error);
  }
  if (status != MX_OK) {
    mx::raise_status(status, mx::said(status, error.message).c_str());
    return nullptr;
  }
  if (failure != nullptr) {
    const mx::FailureRef held(failure);
    mx::raise_failure(failure);
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* push(PyObject*, PyObject* arguments) {
  PyObject *function = nullptr, *reads = nullptr, *writes = nullptr;
  const char* name = nullptr;
  int priority = 0;
  if (PyArg_ParseTuple(arguments, "OsO!O!i", &function, &name, &PyTuple_Type, &reads, &PyTuple_Type, &writes,
                       &priority) == 0) {
    return nullptr;
  }
  if (engine == nullptr || mx::interpreter_ends()) {
    mx::raise_status(MX_ERROR_SHUTDOWN, "[push] there is no engine; nothing can be pushed");
    return nullptr;
  }
  try {
    return push_with(function, name, reads, writes, priority);
  } catch (const PythonErrorSet&) {
    return nullptr;
  } catch (const std::exception& error) {
    return PyErr_NoMemory();
  }
}

PyObject* complete(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *error = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &capsule, &error) == 0) return nullptr;
  auto* done = static_cast<mx_completion*>(PyCapsule_GetPointer(capsule, kPending));
  if (done == nullptr) return nullptr;
  mx_failure* failure = nullptr;
  if (error != Py_None) {
    if (PyExceptionInstance_Check(error) == 0) {
      PyErr_SetString(PyExc_TypeError, "[complete] error: expected an exception or None");
      return nullptr;
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    failure = mx::take_python_failure();
  }
  return PyBool_FromLong(finish(capsule, done, failure) ? 1 : 0);
}

PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS, "Takes the tables of the engine and of arrays."},
    {"push", push, METH_VARARGS, "Pushes an operation that `complete` ends."},
    {"complete", complete, METH_VARARGS, "Ends a pending operation; whether it had not ended yet."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "_asynchronous", "Operations of the engine that another thread ends.", 0, methods,
    nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__asynchronous() { return mx::needs_no_gil(PyModule_Create(&module_definition)); }
