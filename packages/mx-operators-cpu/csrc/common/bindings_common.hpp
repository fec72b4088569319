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
#include "common/plan.hpp"

namespace py = pybind11;

namespace mx::cpu {

using PySpecs = std::vector<std::pair<Shape, int32_t>>;

std::vector<Spec> specs(const PySpecs& given);
py::object capsule(PlanPtr plan);

}  // namespace mx::cpu
