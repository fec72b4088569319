// SPDX-License-Identifier: Apache-2.0
//
// The extension module, and what an engine is set to.
#include "bindings.hpp"

#include <algorithm>

#include "mx_core/pybind_holder.hpp"
#include "openmp.hpp"

namespace mx::engine {
namespace {

// Holds a reference to the engine, which owns the table.
py::capsule capsule(const PyEngine& self) {
  self.get()->lifecycle().retain();
  return py::capsule(self.get()->table(), MX_ENGINE_CAPSULE, [](PyObject* object) {
    auto* table = static_cast<mx_engine_api*>(PyCapsule_GetPointer(object, MX_ENGINE_CAPSULE));
    const GilRelease nogil;
    table->release(table->self);
  });
}

void attach_device(const PyEngine& self, const py::object& capsule) {
  const auto* device = translated([&] {
    return import_plugin_table<mx_device_api>(capsule.ptr(), MX_DEVICE_CAPSULE, MX_DEVICE_MAJOR,
                                              MX_DEVICE_SIZE_1_0, "mx-engine");
  });
  mx_error error{};
  raise_unless_ok(self.get()->scheduler().attach_device(device, &error), error);
  self.get()->lifecycle().keep(py::object(capsule).release().ptr(), drop_reference);
}

}  // namespace

PyEngine::PyEngine(const std::string& name, bool naive, bool per_device, bool debug, bool sticky,
                   int compute, int priority, int copy, int python) {
  EngineOptions options;
  options.name = name;
  options.naive = naive;
  options.per_device = per_device;
  options.debug = debug;
  options.sticky = sticky;
  options.limits = {compute, priority, copy, python};
  options.thread_ends = end_python_thread;
  options.sleep = sleep_without_gil;
  engine_ = new Engine(std::move(options));
}

}  // namespace mx::engine

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  using namespace mx::engine;
  module.doc() = "The native engine.";
  bind_table_tools(module);
  py::class_<PyEngine> engine(
      module, "Engine", py::module_local(),
      "Runs functions asynchronously, ordered by the variables they read and mutate.\n\n"
      "Of two operations of which one mutates a common variable, the one pushed first runs first; readers "
      "run together. All methods may be called from any thread; those that block release the GIL and can be "
      "interrupted by Ctrl-C.\n\n"
      "Threads: any.");
  engine
      .def("__init__",
           mx::init<std::unique_ptr<PyEngine>, const std::string&, bool, bool, bool, bool, int, int, int, int>(),
           py::detail::is_new_style_constructor(), py::arg("name"),
           py::kw_only(), py::arg("naive") = false, py::arg("per_device") = true,
           py::arg("debug") = false, py::arg("sticky") = false, py::arg("workers") = 1,
           py::arg("priority_workers") = 4, py::arg("copy_workers") = 2, py::arg("python_workers") = 1)
      .def_property_readonly("capsule", &capsule,
           "The C table (`mx.engine.v1`); the capsule keeps the engine alive.")
      .def_property_readonly("name", [](const PyEngine& e) { return e.get()->name(); },
           "What it was called when it was made: of the process's engine its type, such as `NaiveEngine`.")
      .def_property_readonly("is_naive", [](const PyEngine& e) { return e.get()->naive(); },
           "Whether everything runs at the push.")
      .def_property(
          "workers", [](const PyEngine& e) { return e.get()->scheduler().workers(); },
          [](PyEngine& e, int n) { e.get()->scheduler().set_workers(n); },
           "Compute threads per CPU device; 0 for a naive engine, which ignores assignments.")
      .def_property(
          "num_omp_threads_per_worker",
          [](const PyEngine& e) {
            const int n = e.get()->scheduler().omp_threads();
            return n != 0 ? n : openmp_threads();
          },
          [](PyEngine& e, int n) { e.get()->scheduler().set_omp_threads(std::clamp(n, 0, 1024)); },
           "Threads of an OpenMP parallel region inside an operation, on each of the engine's threads.")
      .def("attach_device", &attach_device, py::arg("capsule"),
           "Attaches an accelerator, so that operations on its contexts can be pushed.");
  bind_variables(module, engine);
  bind_operations(module, engine);
  bind_waits(engine);
  bind_lifecycle(engine);
  mx::refuse_uninitialised(module);
}
