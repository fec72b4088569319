// SPDX-License-Identifier: Apache-2.0
//
// Stop, shut-down, forks and the end of an engine, with Ctrl-C.
#include <algorithm>
#include <thread>
#include <vector>

#include "bindings.hpp"
#include "frame.hpp"

namespace mx::engine {
namespace {

constexpr auto kFirstHold = std::chrono::milliseconds(500);  // how long a fork holds pushes back at first

int64_t nanoseconds_until(Clock::time_point end) {
  return std::max<int64_t>(0, std::chrono::nanoseconds(end - Clock::now()).count());
}

// Waits until nothing is pending.  False when the time ran out, or, with the exception set, when
// Ctrl-C was pressed or a handler of another signal raised.
bool drain_for(Engine* engine, const std::optional<double>& timeout) {
  const Clock::time_point end = deadline_of(timeout);
  for (;;) {
    {
      const GilRelease nogil;
      const auto slice = std::min<Clock::duration>(end - Clock::now(), kSignalInterval);
      const int64_t ns = std::chrono::nanoseconds(slice).count();
      if (engine->waiting().drain(std::max<int64_t>(0, ns))) return true;
    }
    if (interrupted() || Clock::now() >= end) return false;
  }
}

bool drain(const PyEngine& self, const std::optional<double>& timeout) {
  const bool quiet = drain_for(self.get(), timeout);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return quiet;
}

// Drains and ends the threads; False when that took longer than `timeout`.
bool stop(const PyEngine& self, const std::optional<double>& timeout) {
  const Clock::time_point end = deadline_of(timeout);
  if (Scheduler::on_own_thread() || !drain(self, timeout)) return false;
  const GilRelease nogil;
  return self.get()->lifecycle().stop(nanoseconds_until(end));
}

// Refuses pushes of other threads than the running operations', then drains.
bool close(const PyEngine& self, const std::optional<double>& timeout) {
  const Clock::time_point end = deadline_of(timeout);
  for (;;) {
    {
      const GilRelease nogil;
      const Clock::time_point slice = Clock::now() + kSignalInterval;
      if (self.get()->lifecycle().close(nanoseconds_until(std::min(end, slice)))) return true;
    }
    if (interrupted()) throw py::error_already_set();
    if (Clock::now() >= end) return false;
  }
}

// Drains and stops the engine, and closes it for pushes of other threads: "quiet".  "busy" when
// operations were still pending after `timeout` seconds, "inside" when the fork happens inside an
// operation: the child's engine then starts without what was pending.  So it does when Ctrl-C was
// pressed or a handler raised meanwhile, which is thrown when the engine is closed.
//
// Other threads' pushes are held back meanwhile, or a moment without any might never come.  What
// is pending may wait for just such a thread, which therefore gets on for a moment now and then.
const char* before_fork(const PyEngine& self, double timeout) {
  Engine* const engine = self.get();
  const Clock::time_point end = deadline_of(timeout);
  const bool inside = Frame::any();
  const auto seconds_until = [](Clock::time_point when) {
    return std::chrono::duration<double>(when - Clock::now()).count();
  };
  for (auto hold = kFirstHold; !inside; hold *= 2) {
    engine->lifecycle().hold_for_fork();
    if (drain_for(engine, seconds_until(std::min(end, Clock::now() + hold)))) {
      {
        const GilRelease nogil;
        engine->lifecycle().stop(nanoseconds_until(end));
      }
      if (engine->lifecycle().try_close_for_fork(false)) return "quiet";
    }
    if (PyErr_Occurred() != nullptr || Clock::now() >= end) break;
    engine->lifecycle().open_after_fork();
    drain_for(engine, seconds_until(std::min(end, Clock::now() + kSignalInterval)));
    if (PyErr_Occurred() != nullptr) break;
  }
  engine->lifecycle().try_close_for_fork(true);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return inside ? "inside" : "busy";
}

// Operations that run now, as "name (pushed at file:line)".
std::vector<py::str> running(const PyEngine& self) {
  std::vector<py::str> texts;
  for (const Running& operation : self.get()->scheduler().running()) {
    std::string text = operation.name == nullptr ? "unnamed" : operation.name;
    if (operation.origin != nullptr) text += std::string(" (pushed at ") + operation.origin + ")";
    texts.push_back(decoded(text.c_str()));
  }
  return texts;
}

void after_fork(const PyEngine& self) { self.get()->lifecycle().open_after_fork(); }

}  // namespace

PyEngine::~PyEngine() {
  const py::error_scope kept;
  const bool quiet =
      !engine_->lifecycle().last_user() || Scheduler::on_own_thread() || drain_for(engine_, std::nullopt);
  if (PyErr_Occurred() != nullptr) drop_exception();
  const GilRelease nogil;
  engine_->lifecycle().release(quiet);
}

void bind_lifecycle(py::class_<PyEngine>& engine) {
  engine.def("drain", &drain, py::arg("timeout"),
           "Blocks until nothing is pending, at most `timeout` seconds; raises no failures.")
      .def("stop", &stop, py::arg("timeout") = py::none(),
           "Waits for pending work and ends the threads; the next push starts them again.")
      .def("close", &close, py::arg("timeout"),
           "Refuses pushes from outside of operations from now on, then waits at most `timeout` seconds for what is "
           "pending, pushes of running operations included; False when the time ran out.")
      .def("cancel", [](const PyEngine& e, const std::string& why) { e.get()->completion().cancel(why.c_str()); },
           py::arg("why"),
           "Skips from now on what has not begun, no-skip operations excepted. Waits for what was to be written "
           "raise `EngineShutdownError(why)`. There is no way back; for the end of a process.")
      .def("serve_exit", [](const PyEngine& e) { e.get()->lifecycle().serve_exit(); },
           "Once closed and quiet: the calling thread, which runs the handlers of the exit, may push again; what it "
           "pushes has finished when the push returns.")
      .def("notify_shutdown", [](const PyEngine& e) { e.get()->lifecycle().notify_shutdown(); },
           "Closes the engine for good: pushes are refused, what is queued does not run.")
      .def("running", &running,
           "Operations that run now on the engine's threads or on accelerators, each with the line that pushed it.")
      .def("before_fork", &before_fork, py::arg("timeout"),
           "Drains and stops the engine and closes it until `after_fork`: `quiet`. `busy` when operations were still "
           "pending after `timeout` seconds, `inside` when the caller is inside one: the child's engine then starts "
           "without them. What a handler of a signal raises ends the wait and is raised when the engine is closed.")
      .def("after_fork", &after_fork,
           "Opens the engine again, in the parent and in the child.");
}

}  // namespace mx::engine
