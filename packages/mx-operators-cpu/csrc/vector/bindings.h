// SPDX-License-Identifier: Apache-2.0
//
// What the binding files share.  The only sources that include Python are bindings*.cc.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "mx_core/python.hpp"
#include "plan.h"

namespace py = pybind11;

namespace mx::vector {

using PySpecs = std::vector<std::pair<Shape, int>>;

std::vector<Spec> specs(const PySpecs& given);
py::object capsule(PlanPtr plan);

void bind_arrays(py::module_& module);
void bind_boxes(py::module_& module);
void bind_composite(py::module_& module);
void bind_correlation(py::module_& module);
void bind_ctc(py::module_& module);
void bind_order(py::module_& module);
void bind_progression(py::module_& module);
void bind_regions(py::module_& module);
void bind_resample(py::module_& module);
void bind_rows(py::module_& module);
void bind_sampler(py::module_& module);
void bind_variates(py::module_& module);

}  // namespace mx::vector
