// SPDX-License-Identifier: Apache-2.0
//
// Variables.
#include "bindings.hpp"
#include "frame.hpp"

#include "mx_core/pybind_holder.hpp"

namespace mx::engine {
namespace {

void delete_variable(const PyEngine& self, PyVariable& variable, const py::object& deleter) {
  const VariableUse use(self.get(), variable);
  if (!deleter.is_none()) {
    const py::tuple writes = py::make_tuple(py::cast(&variable));
    push_python(self.get(), deleter, py::tuple(), writes, py::none(), 0, py::none(), "no_skip", false);
  }
  variable.remove();
}

}  // namespace

VariableUse::VariableUse(const Engine* engine, PyVariable& variable) : variable_(&variable) {
  if (variable.engine != engine) {
    raise_status(MX_ERROR_VALUE, "the variable belongs to another engine");
    throw py::error_already_set();
  }
  if (!variable.enter()) {
    raise_status(MX_ERROR_VALUE, "the variable was deleted");
    throw py::error_already_set();
  }
}

void bind_variables(py::module_& module, py::class_<PyEngine>& engine) {
  py::class_<PyVariable>(module, "Variable", py::module_local());
  engine
      .def("new_variable",
           [](const py::object& self) {
             return new_object(std::make_unique<PyVariable>(self, self.cast<PyEngine&>().get()));
           },
           "A variable of this engine, which nothing uses yet.")
      .def("delete_variable", &delete_variable, py::arg("variable"), py::arg("deleter") = py::none(),
           "Deletes a variable behind everything pushed on it, then calls `deleter`. Never blocks.")
      .def("variable_version",
           [](const PyEngine& e, PyVariable& v) {
             return e.get()->variables().version(VariableUse(e.get(), v).get());
           },
           py::arg("variable"),
           "Finished writes of the variable.")
      .def("variable_ready",
           [](const PyEngine& e, PyVariable& v, bool for_write) {
             return e.get()->waiting().ready(VariableUse(e.get(), v).get(), for_write);
           },
           py::arg("variable"), py::arg("for_write") = false,
           "Whether nothing pushed so far still has to write (`for_write`: or read) it.")
      .def("is_reading",
           [](const PyEngine& e, PyVariable& v) { return Frame::reads(whole_of(VariableUse(e.get(), v).get())); },
           py::arg("variable"), "Whether the operation that runs on this thread reads the variable.");
}

}  // namespace mx::engine
