// SPDX-License-Identifier: Apache-2.0
#include "common/bindings_common.hpp"
#include "vision/bilinear_sampler.hpp"

namespace mx::cpu {
namespace {

void bind_one(py::module_& module, const char* name, PlanPtr (*make)(std::vector<Spec>, std::vector<Spec>),
              const char* text) {
  module.def(
      name,
      [make](const PySpecs& inputs, const PySpecs& outputs) { return capsule(make(specs(inputs), specs(outputs))); },
      py::arg("inputs"), py::arg("outputs"), text);
}

}  // namespace

void bind_sampler(py::module_& module) {
  bind_one(module, "sampler_plan", make_sampler_plan, "A plan for images at the points of grids.");
  bind_one(module, "sampler_backward_plan", make_sampler_backward_plan, "A plan for its gradients.");
  bind_one(module, "affine_grid_plan", make_affine_grid_plan, "A plan for grids that matrices map.");
  bind_one(module, "affine_grid_backward_plan", make_affine_grid_backward_plan, "A plan for their gradient.");
  module.def(
      "warp_grid_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, bool backward) {
        return capsule(make_warp_grid_plan(specs(inputs), specs(outputs), backward));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("backward"), "A plan for grids from flows.");
}

}  // namespace mx::cpu
