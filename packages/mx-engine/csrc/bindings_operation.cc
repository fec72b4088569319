// SPDX-License-Identifier: Apache-2.0
//
// Python callables as operations.
#include "bindings.hpp"

#include "mx_core/intern.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::engine {
namespace {

// Taking the GIL from native threads.
//
// A pool's thread keeps one Python thread state for its life: making one per operation would cost
// more than a small operation.  None of this is RAII: a thread that still runs Python code while
// the interpreter is finalised is ended by CPython from inside, and unwinding must not touch
// Python then.
thread_local PyGILState_STATE lane_gil = PyGILState_UNLOCKED;
thread_local PyThreadState* lane_state = nullptr;  // of this pool thread, once it ran Python
thread_local SpinBudget gil_spin;
thread_local bool lane_busy = false;               // lane_state is in use further up the stack

struct GilTaken {
  bool by_lane;
  PyGILState_STATE state;
};

GilTaken take_gil() {
  const Worker* worker = WorkerPool::current();
  if (worker == nullptr || lane_busy) return {false, PyGILState_Ensure()};
  if (worker->fresh) gil_spin.spin_until(WaitWithoutGil::any);
  if (lane_state == nullptr) {
    lane_gil = PyGILState_Ensure();
    lane_state = PyThreadState_Get();
  } else {
    PyEval_RestoreThread(lane_state);
  }
  lane_busy = true;
  return {true, PyGILState_UNLOCKED};
}

void give_gil(GilTaken taken) {
  if (taken.by_lane) {
    lane_busy = false;
    PyEval_SaveThread();
  } else {
    PyGILState_Release(taken.state);
  }
}

mx_failure* ended() noexcept {
  return make_failure(MX_ERROR_SHUTDOWN, "the interpreter ended before the operation ran");
}

// `argument` of a Python operation is the callable, a strong reference.
mx_failure* run_callable(void* argument, const mx_run_context*) {
  if (interpreter_ends()) return ended();
  const GilTaken gil = take_gil();
  PyObject* result = PyObject_CallNoArgs(static_cast<PyObject*>(argument));
  mx_failure* failure = result == nullptr ? take_python_failure() : nullptr;
  Py_XDECREF(result);
  give_gil(gil);
  return failure;
}

// The `done` of an asynchronous operation, from `begin` on.
class Done {
 public:
  explicit Done(Engine* engine) noexcept : engine_(engine) {}
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;
  ~Done() {
    if (pending_.load(std::memory_order_acquire) == nullptr) return;
    finish(make_failure(MX_ERROR, "the operation was given up: done() was never called"));
  }
  void begin(mx_completion* pending) noexcept { pending_.store(pending, std::memory_order_release); }
  // Whether this was the first call.
  bool finish(mx_failure* failure) {
    mx_completion* pending = pending_.exchange(nullptr, std::memory_order_acq_rel);
    if (pending == nullptr) {
      if (failure != nullptr) failure->release(failure);
      return false;
    }
    const GilRelease nogil;
    engine_->scheduler().complete(reinterpret_cast<Block*>(pending), failure);
    return true;
  }
  void call(const py::object& error) {
    mx_failure* failure = nullptr;
    if (!error.is_none()) {
      if (PyExceptionInstance_Check(error.ptr()) == 0) {
        raise_status(MX_ERROR_VALUE, "[done] error: expected an exception or None");
        throw py::error_already_set();
      }
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
      failure = take_python_failure();
    }
    if (!finish(failure)) {
      raise_status(MX_ERROR, "[done] called twice; an operation ends once");
      throw py::error_already_set();
    }
  }

 private:
  Engine* const engine_;    // alive while the operation is pending
  std::atomic<mx_completion*> pending_{nullptr};  // NULL before and after
};

struct AsyncCallable {
  PyObject* function;  // strong
  Engine* engine;      // alive: it has this operation pending
};

void drop_async(void* argument) noexcept {
  auto* async = static_cast<AsyncCallable*>(argument);
  drop_reference(async->function);
  delete async;
}

// A new `done`, or NULL with a Python exception set: `pending` is still the caller's.
PyObject* new_done(Engine* engine, mx_completion* pending) noexcept {
  return protect([&] {
    auto done = std::make_unique<Done>(engine);
    Done* made = done.get();
    py::object object = new_object(std::move(done));
    made->begin(pending);
    return object.release().ptr();
  });
}

void start_callable(void* argument, const mx_run_context*, mx_completion* pending) {
  const auto* async = static_cast<AsyncCallable*>(argument);
  if (interpreter_ends()) {
    async->engine->scheduler().complete(reinterpret_cast<Block*>(pending), ended());
    return;
  }
  const GilTaken gil = take_gil();
  PyObject* done = new_done(async->engine, pending);
  if (done == nullptr) {  // without the object nobody else can end the operation
    mx_failure* failure = take_python_failure();
    give_gil(gil);
    async->engine->scheduler().complete(reinterpret_cast<Block*>(pending), failure);
    return;
  }
  PyObject* result = PyObject_CallOneArg(async->function, done);
  if (result == nullptr) {
    py::handle(done).cast<Done&>().finish(take_python_failure());
  }
  Py_XDECREF(result);
  Py_DECREF(done);
  give_gil(gil);
}

int32_t property_of(const std::string& name) {
  static const std::pair<const char*, int32_t> known[] = {
      {"normal", MX_FN_NORMAL},
      {"copy_from_device", MX_FN_COPY_FROM_DEVICE},
      {"copy_to_device", MX_FN_COPY_TO_DEVICE},
      {"cpu_prioritized", MX_FN_CPU_PRIORITIZED},
      {"async", MX_FN_ASYNC},
      {"device_prioritized", MX_FN_DEVICE_PRIORITIZED},
      {"no_skip", MX_FN_NO_SKIP},
  };
  for (const auto& [text, value] : known) {
    if (name == text) return value;
  }
  const std::string text = "[push] property: expected normal, no_skip, async, cpu_prioritized, "
                           "device_prioritized, copy_from_device or copy_to_device, got '" +
                           name + "'";
  raise_status(MX_ERROR_VALUE, text.c_str());
  throw py::error_already_set();
}

[[noreturn]] void refuse_type(const char* argument, const char* expected, py::handle got) {
  const std::string text = std::string("[push] ") + argument + ": expected " + expected + ", got " +
                           Py_TYPE(got.ptr())->tp_name;
  raise_status(MX_ERROR_DTYPE, text.c_str());
  throw py::error_already_set();
}

// The variables of a push, until it is done.
struct Used {
  std::vector<py::object> objects;  // an iterator may have had the only references
  std::vector<VariableUse> uses;
  std::vector<Variable*> variables;

  Used(const Engine* engine, const py::object& list, const char* argument) {
    if (py::isinstance<PyVariable>(list)) refuse_type(argument, "an iterable of Variable", list);
    for (const py::handle item : list) {
      if (!py::isinstance<PyVariable>(item)) refuse_type(argument, "Variable", item);
      objects.push_back(py::reinterpret_borrow<py::object>(item));
      uses.emplace_back(engine, item.cast<PyVariable&>());
      variables.push_back(uses.back().get());
    }
  }
};

const char* name_of(const py::object& function, const py::object& name) {
  if (!name.is_none() && !py::isinstance<py::str>(name)) refuse_type("name", "str", name);
  if (!name.is_none()) return intern(name.cast<std::string>().c_str());
  const py::object own = py::getattr(function, "__qualname__", py::none());
  if (!own.is_none()) return intern(py::str(own).cast<std::string>().c_str());
  return intern(Py_TYPE(function.ptr())->tp_name);
}

// file:line of the Python code that pushes.
const char* pushing_line() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) return nullptr;
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (file == nullptr) PyErr_Clear();
  const std::string text = std::string(file == nullptr ? "?" : file) + ":" +
                           std::to_string(PyFrame_GetLineNumber(frame));
  Py_DECREF(code);
  return intern(text.c_str());
}

}  // namespace

void drop_reference(void* object) noexcept {
  if (!interpreter_ends()) Reaper::instance().drop(static_cast<PyObject*>(object));
}

void sleep_without_gil() noexcept {
  constexpr auto kMoment = std::chrono::microseconds(100);
  const bool holds = PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0;
  if (!holds) {
    std::this_thread::sleep_for(kMoment);
    return;
  }
  PyThreadState* state = PyEval_SaveThread();
  std::this_thread::sleep_for(kMoment);
  PyEval_RestoreThread(state);
}

void end_python_thread() {
  if (lane_state == nullptr || interpreter_ends()) return;
  PyEval_RestoreThread(std::exchange(lane_state, nullptr));
  PyGILState_Release(lane_gil);
}

void push_python(Engine* engine, py::object function, const py::object& reads,
                 const py::object& writes, const py::object& context, int priority,
                 const py::object& name, const std::string& property, bool asynchronous) {
  if (PyCallable_Check(function.ptr()) == 0) {
    refuse_type("fn", "a callable", function);
  }
  if (interpreter_ends()) {  // no thread would get the GIL any more
    raise_status(MX_ERROR_SHUTDOWN, "[push] the interpreter ends; nothing can be pushed");
    throw py::error_already_set();
  }
  const Used read(engine, reads, "reads");
  const Used written(engine, writes, "writes");
  mx_operation operation{};
  operation.size = sizeof operation;
  operation.flags = MX_PUSH_PYTHON;
  operation.context = context_of(context);
  operation.property = property_of(property);
  operation.priority = priority;
  operation.name = name_of(function, name);
  operation.origin = pushing_line();
  operation.reads = read.variables.data();
  operation.writes = written.variables.data();
  operation.n_reads = static_cast<uint32_t>(read.variables.size());
  operation.n_writes = static_cast<uint32_t>(written.variables.size());
  if (asynchronous) {
    operation.run_async = start_callable;
    operation.argument = new AsyncCallable{function.release().ptr(), engine};
    operation.destroy = drop_async;
  } else {
    operation.run = run_callable;
    operation.argument = function.release().ptr();
    operation.destroy = drop_reference;
  }
  mx_error error{};
  mx_failure* failure = nullptr;
  int32_t status = MX_OK;
  if (engine->naive()) {  // the push may have to wait
    const GilRelease nogil;
    status = engine->push(operation, &failure, &error);
  } else {
    // A push that cannot block keeps the GIL: giving it away each time would have the pushing and
    // the executing threads take turns at every operation.  While another thread forks the engine
    // gives it away (sleep_without_gil).
    status = engine->push(operation, &failure, &error);
  }
  raise_unless_ok(status, error);
  raise_failure_if_any(failure);
}

void bind_operations(py::module_& module, py::class_<PyEngine>& engine) {
  py::class_<Done>(module, "Completion", py::module_local())
      .def("__call__", &Done::call, py::arg("error") = py::none());
  engine
      .def("push",
           [](const PyEngine& e, py::object fn, const py::object& reads, const py::object& writes,
              const py::object& context, int priority, const py::object& name,
              const std::string& property) {
             push_python(e.get(), std::move(fn), reads, writes, context, priority, name, property,
                         false);
           },
           py::arg("fn"), py::arg("reads") = py::tuple(), py::arg("writes") = py::tuple(),
           py::kw_only(), py::arg("context") = py::none(), py::arg("priority") = 0,
           py::arg("name") = py::none(), py::arg("property") = "normal",
           "Pushes `fn`, which is called when all earlier operations on its variables have finished.")
      .def("push_async",
           [](const PyEngine& e, py::object fn, const py::object& reads, const py::object& writes,
              const py::object& context, int priority, const py::object& name,
              const std::string& property) {
             push_python(e.get(), std::move(fn), reads, writes, context, priority, name, property,
                         true);
           },
           py::arg("fn"), py::arg("reads") = py::tuple(), py::arg("writes") = py::tuple(),
           py::kw_only(), py::arg("context") = py::none(), py::arg("priority") = 0,
           py::arg("name") = py::none(), py::arg("property") = "async",
           "As `push`, but the operation ends when the `Completion` given to `fn` is called.");
}

}  // namespace mx::engine
