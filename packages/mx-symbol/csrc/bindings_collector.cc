// SPDX-License-Identifier: Apache-2.0
//
// Pauses of Python's garbage collector. They are native because Ctrl-C raises between any two steps of Python code: a
// pause that has begun always ends.
#include <mutex>

#include "bindings_graph.hpp"

namespace mx::symbol {
namespace {

// How many pauses there are, and whether the collector was enabled before the first.  Threads: any.
struct Pauses {
  std::mutex* mutex = new std::mutex;  // of the rest
  int64_t depth = 0;
  bool was_enabled = false;

  void begin() {
    const std::lock_guard<std::mutex> lock(*mutex);
    if (depth++ == 0) was_enabled = PyGC_Disable() != 0;
  }
  void end() {
    const std::lock_guard<std::mutex> lock(*mutex);
    if (depth > 0 && --depth == 0 && was_enabled) PyGC_Enable();  // a child of a fork has ended those of its parent
  }
  // In the child of a fork, where a thread that is no more may have held the mutex.
  void end_all() {
    mutex = new std::mutex;
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
