// SPDX-License-Identifier: Apache-2.0
//
// What works with any engine's table: the recorder of events, bulk scopes.
#include <algorithm>
#include <cstring>

#include "bindings.hpp"
#include "measure.hpp"
#include "mx_core/pybind_arguments.hpp"
#include "mx_core/pybind_holder.hpp"
#include "recorder.hpp"

namespace mx::engine {
namespace {

// The table of whatever engine is behind the capsule.
const mx_engine_api* table_of(const py::object& capsule) {
  try {
    return import_plugin_table<mx_engine_api>(capsule.ptr(), MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR,
                                              MX_ENGINE_API_SIZE_1_0, "mx-engine");
  } catch (const PythonErrorSet&) {
    throw py::error_already_set();
  }
}

void attach(Recorder& recorder, const py::object& capsule) {
  const mx_engine_api* table = table_of(capsule);
  const GilRelease nogil;
  recorder.attach(table);
}

int32_t set_bulk_size(const py::object& capsule, const py::object& size) {
  const mx_engine_api* table = table_of(capsule);
  const auto n = whole_number<int32_t>("[set_bulk_size] size", size);
  const GilRelease nogil;  // ends the current bulk
  return table->set_bulk_size(table->self, n);
}

// (name, device type, device id, thread, pushed, started, finished, failed, label); times in ns.
py::list events(const Recorder& recorder) {
  std::vector<mx_engine_event> all;
  {
    const GilRelease nogil;
    all = recorder.events();
  }
  py::list list(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const mx_engine_event& e = all[i];
    const char* name = e.name == nullptr ? "unnamed" : e.name;
    list[i] = py::make_tuple(
        decoded(name), e.context.type, e.context.id, e.thread, e.pushed, e.started, e.finished,
        e.failed != 0, e.label == nullptr ? py::none() : py::object(decoded(e.label)));
  }
  return list;
}

Workload workload(const std::string& graph, int operations) {
  if (operations < 1) {
    raise_status(MX_ERROR_VALUE, "[run_empty] operations: expected at least 1");
    throw py::error_already_set();
  }
  if (graph == "independent") return independent(operations);
  if (graph == "one variable") return one_variable(operations);
  if (graph == "random graph") return random_graph(operations);
  const std::string text = "[run_empty] graph: expected independent, one variable or random graph, "
                           "got '" + graph + "'";
  raise_status(MX_ERROR_VALUE, text.c_str());
  throw py::error_already_set();
}

double run_empty(const py::object& capsule, const std::string& graph, int operations, bool inlined) {
  const mx_engine_api* engine = table_of(capsule);
  const Workload made = workload(graph, operations);
  const GilRelease nogil;
  return run(engine, made, inlined ? MX_PUSH_INLINE : 0);
}

double measure_hand_over(const py::object& capsule, int rounds) {
  const mx_engine_api* engine = table_of(capsule);
  const GilRelease nogil;
  return hand_over(engine, std::max(1, rounds));
}

std::unique_ptr<Recorder> make_recorder(const py::object& capacity) {
  return std::make_unique<Recorder>(whole_number<size_t>("[Recorder] capacity", capacity));
}

}  // namespace

void bind_table_tools(py::module_& module) {
  module.def("run_empty", &run_empty, py::arg("capsule"), py::arg("graph"), py::arg("operations"),
             py::kw_only(), py::arg("inline") = false);
  module.def("hand_over", &measure_hand_over, py::arg("capsule"), py::arg("rounds"));
  module.def("set_bulk_size", &set_bulk_size, py::arg("capsule"), py::arg("size"));
  py::class_<Recorder>(module, "Recorder", py::module_local())
      .def("__init__", mx::init(&make_recorder), py::detail::is_new_style_constructor(), py::arg("capacity"))
      .def("attach", &attach, py::arg("capsule"))
      .def("detach", &Recorder::detach, py::call_guard<GilRelease>())
      .def("events", &events)
      .def("clear", &Recorder::clear, py::call_guard<GilRelease>())
      .def_property_readonly("attached", &Recorder::attached)
      .def_property_readonly("dropped", &Recorder::dropped);
}

}  // namespace mx::engine
