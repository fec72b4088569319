// SPDX-License-Identifier: Apache-2.0
//
// Waiting, and what failed.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "bindings.hpp"

namespace mx::engine {
namespace {

// False when the time ran out.
bool wait_for_variable(const PyEngine& self, PyVariable& variable, bool for_write,
                       const std::optional<double>& timeout) {
  Engine* engine = self.get();
  const VariableUse use(engine, variable);
  const Clock::time_point end = deadline_of(timeout);
  mx_failure* failure = nullptr;
  mx_error error{};
  VariableWait wait;
  raise_unless_ok(engine->waiting().begin_wait(wait, use.get(), for_write, &error), error);
  bool interrupt = false;
  int32_t status = MX_OK;
  for (bool done = wait.granted; !done && !interrupt;) {
    {
      const WaitWithoutGil nogil;
      done = engine->waiting().wait_until(wait, std::min(end, Clock::now() + kSignalInterval));
    }
    if (!done && Clock::now() >= end) break;
    interrupt = !done && interrupted();
  }
  if (wait.immediate) {
    status = engine->waiting().end_wait(wait, &failure, &error);
  } else {
    const GilRelease nogil;
    status = engine->waiting().end_wait(wait, interrupt ? nullptr : &failure, &error);
  }
  if (interrupt) throw py::error_already_set();
  if (status == MX_TIMEOUT) return false;
  raise_unless_ok(status, error);
  raise_failure_if_any(failure);
  return true;
}

bool wait_for_all(const PyEngine& self, const std::optional<double>& timeout) {
  const Clock::time_point end = deadline_of(timeout);
  mx_failure* failure = nullptr;
  for (;;) {
    mx_error error{};
    int32_t status = MX_OK;
    {
      const WaitWithoutGil nogil;
      const auto slice = std::min<Clock::duration>(end - Clock::now(), kSignalInterval);
      status = self.get()->waiting().wait_for_all(
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
py::object variable_failure(const PyEngine& self, PyVariable& variable) {
  const FailureRef failure(self.get()->waiting().failure_of(VariableUse(self.get(), variable).get()));
  return failure ? exception_of(failure.get()) : py::none();
}

// How many failures nobody has seen, and descriptions of the first of them.
std::pair<size_t, std::vector<py::str>> unobserved(const PyEngine& self) {
  std::vector<FailureRef> first;
  const size_t count = self.get()->failures().unobserved(&first);
  std::vector<py::str> texts;
  for (const FailureRef& failure : first) {
    std::string text = failure.get()->message;
    if (failure.get()->operator_name[0] != '\0') {
      text += std::string(" (in operator ") + failure.get()->operator_name;
      if (failure.get()->origin[0] != '\0') {
        text += std::string(", pushed at ") + failure.get()->origin;
      }
      text += ")";
    }
    texts.push_back(decoded(text.c_str()));
  }
  return {count, std::move(texts)};
}

}  // namespace

// The moment `seconds` from now; far away for None.
Clock::time_point deadline_of(const std::optional<double>& seconds) {
  if (!seconds.has_value()) return deadline(-1);
  if (std::isnan(*seconds)) {
    raise_status(MX_ERROR_VALUE, "timeout: expected a number of seconds, got nan");
    throw py::error_already_set();
  }
  return deadline(static_cast<int64_t>(std::clamp(*seconds, 0.0, 1e9) * 1e9));
}

void raise_failure_if_any(mx_failure* failure) {
  if (failure == nullptr) return;
  const FailureRef owned(failure);
  raise_failure(failure);
  throw py::error_already_set();
}

void bind_waits(py::class_<PyEngine>& engine) {
  engine.def("wait_for_variable", &wait_for_variable, py::arg("variable"), py::kw_only(),
             py::arg("for_write") = false, py::arg("timeout") = py::none(),
           "Blocks until the writes pushed so far have finished (`for_write`: the reads, too).")
      .def("wait_for_all", &wait_for_all, py::kw_only(), py::arg("timeout") = py::none(),
           "Blocks until nothing is pending; otherwise as `wait_for_variable`.")
      .def("variable_failure", &variable_failure, py::arg("variable"),
           "The exception because of which the variable was not written, also after a wait raised it; None once a "
           "later write has succeeded. Does not block.")
      .def("unobserved", &unobserved,
           "How many failures no wait has raised, and the texts of the first of them.")
      .def_property_readonly("pending", [](const PyEngine& e) { return e.get()->waiting().pending(); },
           "Operations not yet finished.");
}

}  // namespace mx::engine
