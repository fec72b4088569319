// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "frame.h"
#include "openmp.h"

namespace mx::engine {
namespace {

constexpr auto kSignalInterval = std::chrono::milliseconds(50);  // how often Ctrl-C is looked for
constexpr auto kFirstHold = std::chrono::milliseconds(500);  // how long a fork holds pushes back at first

using Clock = std::chrono::steady_clock;

// The moment `seconds` from now; far away for None.
Clock::time_point deadline_of(const std::optional<double>& seconds) {
  if (!seconds.has_value()) return deadline(-1);
  if (std::isnan(*seconds)) {
    raise_status(MX_ERROR_VALUE, "timeout: expected a number of seconds, got nan");
    throw py::error_already_set();
  }
  return deadline(static_cast<int64_t>(std::clamp(*seconds, 0.0, 1e9) * 1e9));
}

int64_t nanoseconds_until(Clock::time_point end) {
  return std::max<int64_t>(0, std::chrono::nanoseconds(end - Clock::now()).count());
}

bool interrupted() { return PyErr_CheckSignals() != 0; }

// Ctrl-C was pressed where Python drops exceptions, in a destructor or a fork hook: it is pressed
// again when that is over.
void interrupt_later() {
  PyErr_Clear();
  try {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      PyErr_SetInterrupt();  // needs no GIL
    }).detach();
  } catch (const std::system_error&) {  // no more threads
    PyErr_SetInterrupt();
  }
}

class PyEngine {
 public:
  PyEngine(const std::string& name, bool naive, bool per_device, bool debug, bool sticky,
           int compute, int priority, int copy, int python) {
    EngineOptions options;
    options.name = name;
    options.naive = naive;
    options.per_device = per_device;
    options.debug = debug;
    options.sticky = sticky;
    options.limits = {compute, priority, copy, python};
    options.thread_ends = end_python_thread;
    options.sleep = sleep_without_gil;
    engine_ = new Engine(std::move(options));
  }
  PyEngine(const PyEngine&) = delete;
  PyEngine& operator=(const PyEngine&) = delete;
  // The end of an engine waits for its operations, if this was its last user; Ctrl-C leaves that
  // to another thread.
  ~PyEngine() {
    const py::error_scope kept;
    const bool quiet =
        !engine_->last_user() || Engine::on_own_thread() || drain_for(std::nullopt);
    if (PyErr_Occurred() != nullptr) interrupt_later();
    const GilRelease nogil;
    engine_->release(quiet);
  }
  Engine* get() const noexcept { return engine_; }

  // Holds a reference to the engine, which owns the table.
  py::capsule capsule() const {
    engine_->retain();
    return py::capsule(engine_->table(), MX_ENGINE_CAPSULE, [](PyObject* object) {
      auto* table = static_cast<mx_engine_api*>(PyCapsule_GetPointer(object, MX_ENGINE_CAPSULE));
      const GilRelease nogil;
      table->release(table->self);
    });
  }

  void delete_variable(PyVariable& variable, const py::object& deleter) {
    checked(get(), variable);
    if (!deleter.is_none()) {
      const py::tuple writes = py::make_tuple(py::cast(&variable));
      push_python(get(), deleter, py::tuple(), writes, py::none(), 0, py::none(), "no_skip",
                  false);
    }
    variable.remove();
  }

  void attach_device(const py::object& capsule) {
    const mx_device_api* device = nullptr;
    try {
      device = import_plugin_table<mx_device_api>(capsule.ptr(), MX_DEVICE_CAPSULE, MX_DEVICE_MAJOR,
                                                  MX_DEVICE_SIZE_1_0, "mx-engine");
    } catch (const PythonErrorSet&) {
      throw py::error_already_set();
    }
    mx_error error{};
    raise_unless_ok(get()->attach_device(device, &error), error);
    get()->keep(py::object(capsule).release().ptr(), drop_reference);
  }

  // False when the time ran out.
  bool wait_for_variable(const PyVariable& variable, bool for_write,
                         const std::optional<double>& timeout) {
    Engine* engine = get();
    Variable* handle = checked(engine, variable);
    const Clock::time_point end = deadline_of(timeout);
    mx_failure* failure = nullptr;
    mx_error error{};
    VariableWait wait;
    raise_unless_ok(engine->begin_wait(wait, handle, for_write, &error), error);
    bool interrupt = false;
    int32_t status = MX_OK;
    for (bool done = wait.granted; !done && !interrupt;) {
      {
        const WaitWithoutGil nogil;
        done = engine->wait_until(wait, std::min(end, Clock::now() + kSignalInterval));
      }
      if (!done && Clock::now() >= end) break;
      interrupt = !done && interrupted();
    }
    if (wait.immediate) {
      status = engine->end_wait(wait, &failure);
    } else {
      const GilRelease nogil;
      status = engine->end_wait(wait, interrupt ? nullptr : &failure);
    }
    if (interrupt) throw py::error_already_set();
    if (status == MX_TIMEOUT) return false;
    raise_failure_if_any(failure);
    return true;
  }

  bool wait_for_all(const std::optional<double>& timeout) {
    const Clock::time_point end = deadline_of(timeout);
    mx_failure* failure = nullptr;
    for (;;) {
      mx_error error{};
      int32_t status = MX_OK;
      {
        const WaitWithoutGil nogil;
        const auto slice = std::min<Clock::duration>(end - Clock::now(), kSignalInterval);
        status = get()->wait_for_all(
            std::max<int64_t>(0, std::chrono::nanoseconds(slice).count()), &failure, &error);
      }
      if (status != MX_TIMEOUT) {
        raise_unless_ok(status, error);
        raise_failure_if_any(failure);
        return true;
      }
      if (interrupted()) throw py::error_already_set();
      if (Clock::now() >= end) return false;
    }
  }

  // The exception recorded for a variable, delivered or not; None without one.
  py::object variable_failure(const PyVariable& variable) {
    const FailureRef failure(get()->failure_of(checked(get(), variable)));
    if (!failure) return py::none();
    if (failure.get()->payload_kind == MX_PAYLOAD_PYTHON) {
      return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(failure.get()->payload));
    }
    raise_failure(failure.get());
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return py::reinterpret_steal<py::object>(value);
  }

  // How many failures nobody has seen, and descriptions of the first of them.
  std::pair<size_t, std::vector<std::string>> unobserved() const {
    std::vector<FailureRef> first;
    const size_t count = get()->failures().unobserved(&first);
    std::vector<std::string> texts;
    for (const FailureRef& failure : first) {
      std::string text = failure.get()->message;
      if (failure.get()->operator_name[0] != '\0') {
        text += std::string(" (in operator ") + failure.get()->operator_name;
        if (failure.get()->origin[0] != '\0') {
          text += std::string(", pushed at ") + failure.get()->origin;
        }
        text += ")";
      }
      texts.push_back(std::move(text));
    }
    return {count, std::move(texts)};
  }

  // Waits until nothing is pending.  False when the time ran out, or, with the exception set, when
  // Ctrl-C was pressed.
  bool drain_for(const std::optional<double>& timeout) {
    const Clock::time_point end = deadline_of(timeout);
    for (;;) {
      {
        const GilRelease nogil;
        const auto slice = std::min<Clock::duration>(end - Clock::now(), kSignalInterval);
        const int64_t ns = std::chrono::nanoseconds(slice).count();
        if (engine_->drain(std::max<int64_t>(0, ns))) return true;
      }
      if (interrupted() || Clock::now() >= end) return false;
    }
  }

  bool drain(const std::optional<double>& timeout) {
    const bool quiet = drain_for(timeout);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return quiet;
  }

  // Drains and ends the threads; False when that took longer than `timeout`.
  bool stop(const std::optional<double>& timeout) {
    const Clock::time_point end = deadline_of(timeout);
    if (Engine::on_own_thread() || !drain(timeout)) return false;
    const GilRelease nogil;
    return engine_->stop(nanoseconds_until(end));
  }

  // Refuses pushes of other threads than the running operations', then drains.
  bool close(const std::optional<double>& timeout) {
    const Clock::time_point end = deadline_of(timeout);
    for (;;) {
      {
        const GilRelease nogil;
        const Clock::time_point slice = Clock::now() + kSignalInterval;
        if (engine_->close(nanoseconds_until(std::min(end, slice)))) return true;
      }
      if (interrupted()) throw py::error_already_set();
      if (Clock::now() >= end) return false;
    }
  }

  // Drains and stops the engine, and closes it for pushes of other threads: "quiet".  "busy" when
  // operations were still pending after `timeout` seconds or at Ctrl-C, "inside" when the fork
  // happens inside an operation: the child's engine then starts without what was pending.
  //
  // Other threads' pushes are held back meanwhile, or a moment without any might never come.  What
  // is pending may wait for just such a thread, which therefore gets on for a moment now and then.
  const char* before_fork(double timeout) {
    const Clock::time_point end = deadline_of(timeout);
    const bool inside = Frame::any();
    const auto seconds_until = [](Clock::time_point when) {
      return std::chrono::duration<double>(when - Clock::now()).count();
    };
    for (auto hold = kFirstHold; !inside; hold *= 2) {
      engine_->hold_for_fork();
      if (drain_for(seconds_until(std::min(end, Clock::now() + hold)))) {
        {
          const GilRelease nogil;
          engine_->stop(nanoseconds_until(end));
        }
        if (engine_->try_close_for_fork(false)) return "quiet";
      }
      if (PyErr_Occurred() != nullptr || Clock::now() >= end) break;
      engine_->open_after_fork();
      drain_for(seconds_until(std::min(end, Clock::now() + kSignalInterval)));
      if (PyErr_Occurred() != nullptr) break;
    }
    if (PyErr_Occurred() != nullptr) interrupt_later();
    engine_->try_close_for_fork(true);
    return inside ? "inside" : "busy";
  }

  // Operations that run now, as "name (pushed at file:line)".
  std::vector<std::string> running() const {
    std::vector<std::string> texts;
    for (const Running& operation : engine_->running()) {
      std::string text = operation.name == nullptr ? "unnamed" : operation.name;
      if (operation.origin != nullptr) text += std::string(" (pushed at ") + operation.origin + ")";
      texts.push_back(std::move(text));
    }
    return texts;
  }

  void after_fork() { get()->open_after_fork(); }

 private:
  Engine* engine_;
};

}  // namespace

void raise_failure_if_any(mx_failure* failure) {
  if (failure == nullptr) return;
  const FailureRef owned(failure);
  raise_failure(failure);
  throw py::error_already_set();
}

Variable* checked(const Engine* engine, const PyVariable& variable) {
  if (variable.engine != engine) {
    raise_status(MX_ERROR_VALUE, "the variable belongs to another engine");
    throw py::error_already_set();
  }
  if (variable.handle == nullptr) {
    raise_status(MX_ERROR_VALUE, "the variable was deleted");
    throw py::error_already_set();
  }
  return variable.handle;
}

}  // namespace mx::engine

PYBIND11_MODULE(_core, module) {
  using namespace mx::engine;
  module.doc() = "The native engine.";
  bind_operations(module);
  bind_table_tools(module);
  py::class_<PyVariable>(module, "Variable", py::module_local());
  py::class_<PyEngine>(module, "Engine", py::module_local())
      .def(py::init<const std::string&, bool, bool, bool, bool, int, int, int, int>(), py::arg("name"),
           py::kw_only(), py::arg("naive") = false, py::arg("per_device") = true,
           py::arg("debug") = false,
           py::arg("sticky") = false,
           py::arg("workers") = 1, py::arg("priority_workers") = 4, py::arg("copy_workers") = 2,
           py::arg("python_workers") = 1)
      .def_property_readonly("capsule", &PyEngine::capsule)
      .def_property_readonly("name", [](const PyEngine& e) { return e.get()->name(); })
      .def_property_readonly("is_naive", [](const PyEngine& e) { return e.get()->naive(); })
      .def_property_readonly("pending", [](const PyEngine& e) { return e.get()->pending(); })
      .def_property(
          "workers", [](const PyEngine& e) { return e.get()->workers(); },
          [](PyEngine& e, int n) { e.get()->set_workers(n); })
      .def("attach_device", &PyEngine::attach_device, py::arg("capsule"))
      .def_property(
          "num_omp_threads_per_worker",
          [](const PyEngine& e) {
            const int n = e.get()->omp_threads();
            return n != 0 ? n : openmp_threads();
          },
          [](PyEngine& e, int n) { e.get()->set_omp_threads(std::clamp(n, 0, 1024)); })
      .def("new_variable",
           [](const py::object& self) {
             return std::make_unique<PyVariable>(self, self.cast<PyEngine&>().get());
           })
      .def("delete_variable", &PyEngine::delete_variable, py::arg("variable"),
           py::arg("deleter") = py::none())
      .def("variable_version",
           [](const PyEngine& e, const PyVariable& v) {
             return e.get()->version(checked(e.get(), v));
           },
           py::arg("variable"))
      .def("variable_ready",
           [](const PyEngine& e, const PyVariable& v, bool for_write) {
             return e.get()->ready(checked(e.get(), v), for_write);
           },
           py::arg("variable"), py::arg("for_write") = false)
      .def("variable_failure", &PyEngine::variable_failure, py::arg("variable"))
      .def("push",
           [](const PyEngine& e, py::object fn, const py::object& reads, const py::object& writes,
              const py::object& context, int priority, const py::object& name,
              const std::string& property) {
             push_python(e.get(), std::move(fn), reads, writes, context, priority, name, property,
                         false);
           },
           py::arg("fn"), py::arg("reads") = py::tuple(), py::arg("writes") = py::tuple(),
           py::kw_only(), py::arg("context") = py::none(), py::arg("priority") = 0,
           py::arg("name") = py::none(), py::arg("property") = "normal")
      .def("push_async",
           [](const PyEngine& e, py::object fn, const py::object& reads, const py::object& writes,
              const py::object& context, int priority, const py::object& name,
              const std::string& property) {
             push_python(e.get(), std::move(fn), reads, writes, context, priority, name, property,
                         true);
           },
           py::arg("fn"), py::arg("reads") = py::tuple(), py::arg("writes") = py::tuple(),
           py::kw_only(), py::arg("context") = py::none(), py::arg("priority") = 0,
           py::arg("name") = py::none(), py::arg("property") = "async")
      .def("wait_for_variable", &PyEngine::wait_for_variable, py::arg("variable"), py::kw_only(),
           py::arg("for_write") = false, py::arg("timeout") = py::none())
      .def("wait_for_all", &PyEngine::wait_for_all, py::kw_only(),
           py::arg("timeout") = py::none())
      .def("drain", &PyEngine::drain, py::arg("timeout"))
      .def("stop", &PyEngine::stop, py::arg("timeout") = py::none())
      .def("close", &PyEngine::close, py::arg("timeout"))
      .def("cancel", [](const PyEngine& e, const std::string& why) { e.get()->cancel(why.c_str()); }, py::arg("why"))
      .def("serve_exit", [](const PyEngine& e) { e.get()->serve_exit(); })
      .def("notify_shutdown", [](const PyEngine& e) { e.get()->notify_shutdown(); })
      .def("unobserved", &PyEngine::unobserved)
      .def("running", &PyEngine::running)
      .def("before_fork", &PyEngine::before_fork, py::arg("timeout"))
      .def("after_fork", &PyEngine::after_fork);
}
