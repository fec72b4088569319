// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace mx::symbol {

namespace py = pybind11;

// Adds graphs in numbers, what is inferred of them, walks over graphs, fusion, schedules, and pauses of the collector to
// the module.
void bind_inference(py::module_& module);
void bind_gradient(py::module_& module);
void bind_graph(py::module_& module);
void bind_fusion(py::module_& module);
void bind_schedule(py::module_& module);
void bind_collector(py::module_& module);

}  // namespace mx::symbol
