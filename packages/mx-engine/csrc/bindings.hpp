// SPDX-License-Identifier: Apache-2.0
//
// What the binding sources share.
#pragma once

#include "mx_core/pybind.hpp"

#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "engine.hpp"

namespace mx::engine {

namespace py = pybind11;

// A variable as Python has it.  Threads: any; it is deleted when the last use of a moment ends, if that is after `remove`.
struct PyVariable {
  // `owner` is the Python object of the engine.
  PyVariable(py::object owner_object, Engine* owner_engine)
      : owner(std::move(owner_object)), engine(owner_engine), handle(engine->variables().new_variable()) {
    if (handle == nullptr) throw std::bad_alloc();
  }
  PyVariable(const PyVariable&) = delete;
  PyVariable& operator=(const PyVariable&) = delete;
  ~PyVariable() { remove(); }
  // Deletes the variable after everything pushed on it; later calls do nothing.
  void remove() {
    if (!removed_.exchange(true, std::memory_order_acq_rel)) leave();
  }
  // Begins a use; false once it was removed.
  bool enter() noexcept {
    if (removed_.load(std::memory_order_acquire)) return false;
    uint32_t users = users_.load(std::memory_order_relaxed);
    while (users != 0 && !users_.compare_exchange_weak(users, users + 1, std::memory_order_acq_rel)) {
    }
    return users != 0;
  }
  void leave() noexcept {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    engine->variables().delete_variable(handle, {MX_CPU, 0}, nullptr, nullptr);
  }
  const py::object owner;
  Engine* const engine;
  Variable* const handle;

 private:
  std::atomic<bool> removed_{false};
  std::atomic<uint32_t> users_{1};  // and one until it is removed
};

// The engine as Python has it.
class PyEngine {
 public:
  PyEngine(const std::string& name, bool naive, bool per_device, bool debug, bool sticky, int compute,
           int priority, int copy, int python);
  PyEngine(const PyEngine&) = delete;
  PyEngine& operator=(const PyEngine&) = delete;
  // The end of an engine waits for its operations, if this was its last user; Ctrl-C leaves that
  // to another thread.
  ~PyEngine();
  Engine* get() const noexcept { return engine_; }

 private:
  Engine* engine_;
};

using Clock = std::chrono::steady_clock;

constexpr auto kSignalInterval = std::chrono::milliseconds(50);  // how often Ctrl-C is looked for

// The moment `seconds` from now; far away for None.
Clock::time_point deadline_of(const std::optional<double>& seconds);
// Whether Ctrl-C was pressed; the exception is set.
inline bool interrupted() { return PyErr_CheckSignals() != 0; }

// Raises what the failure holds; takes the reference.
void raise_failure_if_any(mx_failure* failure);
// A variable in use by a call, which no other thread deletes meanwhile.
class VariableUse {
 public:
  // ArgumentError for a variable of another engine, or one that was deleted.
  VariableUse(const Engine* engine, PyVariable& variable);
  VariableUse(VariableUse&& other) noexcept : variable_(std::exchange(other.variable_, nullptr)) {}
  VariableUse& operator=(VariableUse&&) = delete;
  ~VariableUse() {
    if (variable_ != nullptr) variable_->leave();
  }
  Variable* get() const noexcept { return variable_->handle; }

 private:
  PyVariable* variable_;  // kept by the caller's reference
};

// The GIL is given up for a wait.  A worker that comes for what was just pushed waits a moment for this, rather
// than go to sleep over a GIL that its pusher is about to give up.
class WaitWithoutGil {
 public:
  WaitWithoutGil() noexcept { waiting_.fetch_add(1, std::memory_order_relaxed); }
  ~WaitWithoutGil() { waiting_.fetch_sub(1, std::memory_order_relaxed); }
  WaitWithoutGil(const WaitWithoutGil&) = delete;
  WaitWithoutGil& operator=(const WaitWithoutGil&) = delete;
  static bool any() noexcept { return waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  GilRelease nogil_;
  static inline std::atomic<int> waiting_{0};
};

// Sleeps for a moment, without the GIL if the thread holds it.
void sleep_without_gil() noexcept;
// Drops the Python thread state of the calling pool thread, which is about to end.
void end_python_thread();

// Gives up a reference, on any thread, unless the interpreter ends.
void drop_reference(void* object) noexcept;

// Pushes a Python callable onto the Python lane.
void push_python(Engine* engine, py::object function, const py::object& reads,
                 const py::object& writes, const py::object& context, int priority,
                 const py::object& name, const std::string& property, bool asynchronous);

void bind_variables(py::module_& module, py::class_<PyEngine>& engine);
void bind_operations(py::module_& module, py::class_<PyEngine>& engine);
void bind_waits(py::class_<PyEngine>& engine);
void bind_lifecycle(py::class_<PyEngine>& engine);
void bind_table_tools(py::module_& module);

}  // namespace mx::engine
