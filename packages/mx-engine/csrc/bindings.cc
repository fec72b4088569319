// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "frame.h"

namespace mx::engine {
namespace {

constexpr auto kSignalInterval = std::chrono::milliseconds(50);  // how often Ctrl-C is looked for

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

bool interrupted() { return PyErr_CheckSignals() != 0; }

class PyEngine {
 public:
  PyEngine(const std::string& name, bool naive, bool per_device, bool debug, int compute,
           int priority, int copy, int python) {
    EngineOptions options;
    options.name = name;
    options.naive = naive;
    options.per_device = per_device;
    options.debug = debug;
    options.limits = {compute, priority, copy, python};
    options.thread_ends = end_python_thread;
    options.sleep = sleep_without_gil;
    engine_ = new Engine(std::move(options));
  }
  PyEngine(const PyEngine&) = delete;
  PyEngine& operator=(const PyEngine&) = delete;
  ~PyEngine() {
    py::gil_scoped_release nogil;  // the end of an engine waits for its operations
    engine_->release();
  }
  Engine* get() const noexcept { return engine_; }

  // Holds a reference to the engine, which owns the table.
  py::capsule capsule() const {
    engine_->retain();
    return py::capsule(engine_->table(), MX_ENGINE_CAPSULE, [](PyObject* object) {
      auto* table = static_cast<mx_engine_api*>(PyCapsule_GetPointer(object, MX_ENGINE_CAPSULE));
      py::gil_scoped_release nogil;
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
      device = import_table<mx_device_api>(capsule.ptr(), MX_DEVICE_CAPSULE, MX_DEVICE_MAJOR,
                                           MX_DEVICE_MINOR, "mx-engine");
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
        py::gil_scoped_release nogil;
        done = engine->wait_until(wait, std::min(end, Clock::now() + kSignalInterval));
      }
      if (!done && Clock::now() >= end) break;
      interrupt = !done && interrupted();
    }
    if (wait.immediate) {
      status = engine->end_wait(wait, &failure);
    } else {
      py::gil_scoped_release nogil;
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
        py::gil_scoped_release nogil;
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

  // Drains and stops the engine, and closes it for pushes of other threads.  False when operations
  // were still pending after `timeout` seconds, or the fork happens inside one: the child's engine
  // then starts without them.
  bool before_fork(double timeout) {
    const Clock::time_point end = deadline_of(timeout);
    Engine* engine = get();
    while (!Frame::any() && Clock::now() < end) {
      {
        py::gil_scoped_release nogil;
        if (!engine->drain(std::chrono::nanoseconds(end - Clock::now()).count())) break;
        engine->stop();
      }
      if (engine->try_close_for_fork(false)) return true;
    }
    engine->try_close_for_fork(true);
    return false;
  }

  void after_fork() { get()->open_after_fork(); }

 private:
  Engine* engine_;
};

}  // namespace

void raise_unless_ok(int32_t status, const mx_error& error) {
  if (status == MX_OK) return;
  raise_status(status, error.message);
  throw py::error_already_set();
}

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
      .def(py::init<const std::string&, bool, bool, bool, int, int, int, int>(), py::arg("name"),
           py::kw_only(), py::arg("naive") = false, py::arg("per_device") = true,
           py::arg("debug") = false,
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
      .def("drain",
           [](const PyEngine& e, double timeout) {
             const auto left = deadline_of(timeout) - Clock::now();
             py::gil_scoped_release nogil;
             return e.get()->drain(std::max<int64_t>(0, std::chrono::nanoseconds(left).count()));
           },
           py::arg("timeout"))
      .def("stop", [](const PyEngine& e) { e.get()->stop(); },
           py::call_guard<py::gil_scoped_release>())
      .def("start", [](const PyEngine& e) { e.get()->start(); })
      .def("close",
           [](const PyEngine& e, double timeout) {
             const auto left = deadline_of(timeout) - Clock::now();
             py::gil_scoped_release nogil;
             return e.get()->close(std::max<int64_t>(0, std::chrono::nanoseconds(left).count()));
           },
           py::arg("timeout"))
      .def("notify_shutdown", [](const PyEngine& e) { e.get()->notify_shutdown(); })
      .def("unobserved", &PyEngine::unobserved)
      .def("before_fork", &PyEngine::before_fork, py::arg("timeout"))
      .def("after_fork", &PyEngine::after_fork);
}
