// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <tuple>

#include "common/bindings_common.hpp"
#include "common/composite.hpp"

namespace mx::cpu {
namespace {

// (plan, inputs, outputs, scalars as (number, scalar or None), mutates)
using PyPart = std::tuple<py::object, std::vector<uint32_t>, std::vector<uint32_t>,
                          std::vector<std::pair<double, std::optional<uint32_t>>>, bool>;

py::object composite_plan(const PySpecs& inputs, const PySpecs& outputs, const PySpecs& temporaries,
                          const std::vector<PyPart>& given, uint32_t n_scalars, const std::vector<uint32_t>& blank) {
  std::vector<Part> parts;
  for (const auto& [plan, in, out, scalars, mutates] : given) {
    auto* held = static_cast<mx_plan*>(PyCapsule_GetPointer(plan.ptr(), MX_PLAN_CAPSULE));
    if (held == nullptr) throw py::error_already_set();
    Part part{held, in, out, {}, mutates};
    for (const auto& [number, scalar] : scalars) part.scalars.push_back({number, scalar});
    parts.push_back(std::move(part));
  }
  return capsule(
      make_composite_plan(specs(inputs), specs(outputs), specs(temporaries), std::move(parts), n_scalars, blank));
}

}  // namespace

void bind_composite(py::module_& module) {
  module.def("composite_plan", &composite_plan, py::arg("inputs"), py::arg("outputs"), py::arg("temporaries"),
             py::arg("parts"), py::arg("n_scalars") = 0, py::arg("blank") = std::vector<uint32_t>(), "A plan that runs other plans one after the other.");
}

}  // namespace mx::cpu
