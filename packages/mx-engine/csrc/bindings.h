// SPDX-License-Identifier: Apache-2.0
//
// What the binding sources share.
#pragma once

#include "mx_core/pybind.hpp"

#include <atomic>

#include "engine.h"

namespace mx::engine {

namespace py = pybind11;

struct PyVariable {
  // `owner` is the Python object of the engine.
  PyVariable(py::object owner_object, Engine* owner_engine)
      : owner(std::move(owner_object)), engine(owner_engine), handle(engine->new_variable()) {
    if (handle == nullptr) throw std::bad_alloc();
  }
  PyVariable(const PyVariable&) = delete;
  PyVariable& operator=(const PyVariable&) = delete;
  ~PyVariable() { remove(); }
  // Deletes the variable behind everything pushed on it; later calls do nothing.
  void remove() {
    Variable* variable = std::exchange(handle, nullptr);
    if (variable != nullptr) engine->delete_variable(variable, {MX_CPU, 0}, nullptr, nullptr);
  }
  const py::object owner;
  Engine* const engine;
  Variable* handle;  // NULL once deleted
};

// Raises what the failure holds; takes the reference.
void raise_failure_if_any(mx_failure* failure);
// The engine's own variable, or ArgumentError.
Variable* checked(const Engine* engine, const PyVariable& variable);

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

void bind_operations(py::module_& module);
void bind_table_tools(py::module_& module);

}  // namespace mx::engine
