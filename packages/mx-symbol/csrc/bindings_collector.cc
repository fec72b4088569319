// SPDX-License-Identifier: Apache-2.0
//
// Pauses of Python's garbage collector. They are native because Ctrl-C raises between any two steps of Python code: a
// pause that has begun always ends.
#include "bindings_graph.hpp"

namespace mx::symbol {
namespace {

// How many pauses there are, and whether the collector was enabled before the first; guarded by the interpreter's lock.
struct Pauses {
  int64_t depth = 0;
  bool was_enabled = false;

  void begin() {
    if (depth++ == 0) was_enabled = PyGC_Disable() != 0;
  }
  void end() {
    if (depth > 0 && --depth == 0 && was_enabled) PyGC_Enable();  // a child of a fork has ended those of its parent
  }
  void end_all() {
    if (depth > 0 && was_enabled) PyGC_Enable();
    depth = 0;
  }
};

Pauses pauses;

struct CollectorPause {};

}  // namespace

void bind_collector(py::module_& module) {
  py::class_<CollectorPause>(module, "CollectorPause", "The collector does not run within it.")
      .def(py::init<>())
      .def("__enter__", [](const CollectorPause&) { pauses.begin(); })
      .def("__exit__", [](const CollectorPause&, const py::args&) { pauses.end(); });
  module.def("end_collector_pauses", [] { pauses.end_all(); }, "Ends the pauses of threads that are no more.");
}

}  // namespace mx::symbol
