// SPDX-License-Identifier: Apache-2.0
//
// The recorder of engine events, for the profiler.
#include <cstring>

#include "bindings.h"
#include "recorder.h"

namespace mx::engine {
namespace {

void attach(Recorder& recorder, const py::object& capsule) {
  try {
    const auto* table = import_table<mx_engine_api>(capsule.ptr(), MX_ENGINE_CAPSULE,
                                                    MX_ENGINE_MAJOR, 0, "mx-engine");
    const py::gil_scoped_release nogil;
    recorder.attach(table);
  } catch (const PythonErrorSet&) {
    throw py::error_already_set();
  }
}

// (name, device type, device id, thread, pushed, started, finished, failed); times in ns.
py::list events(const Recorder& recorder) {
  std::vector<mx_engine_event> all;
  {
    const py::gil_scoped_release nogil;
    all = recorder.events();
  }
  py::list list(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const mx_engine_event& e = all[i];
    const char* name = e.name == nullptr ? "unnamed" : e.name;
    list[i] = py::make_tuple(
        py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(name, std::strlen(name), "replace")),
        e.context.type, e.context.id, e.thread, e.pushed, e.started, e.finished, e.failed != 0);
  }
  return list;
}

}  // namespace

void bind_recorder(py::module_& module) {
  py::class_<Recorder>(module, "Recorder", py::module_local())
      .def(py::init<size_t>(), py::arg("capacity"))
      .def("attach", &attach, py::arg("capsule"))
      .def("detach", &Recorder::detach, py::call_guard<py::gil_scoped_release>())
      .def("events", &events)
      .def("clear", &Recorder::clear, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("attached", &Recorder::attached)
      .def_property_readonly("dropped", &Recorder::dropped);
}

}  // namespace mx::engine
