// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "bindings.h"
#include "deformable.h"
#include "sampler.h"

namespace mx::vector {
namespace {

void bind_one(py::module_& module, const char* name, PlanPtr (*make)(std::vector<Spec>, std::vector<Spec>),
              const char* text) {
  module.def(
      name,
      [make](const PySpecs& inputs, const PySpecs& outputs) { return capsule(make(specs(inputs), specs(outputs))); },
      py::arg("inputs"), py::arg("outputs"), text);
}

using Pair = std::array<int64_t, 2>;

void bind_deformable(py::module_& module, const char* name,
                     PlanPtr (*make)(std::vector<Spec>, std::vector<Spec>, const DeformableOptions&), const char* text) {
  module.def(
      name,
      [make](const PySpecs& inputs, const PySpecs& outputs, Pair kernel, Pair stride, Pair pad, Pair dilate,
             int64_t groups, bool masked) {
        return capsule(make(specs(inputs), specs(outputs),
                            {{kernel[0], kernel[1]}, {stride[0], stride[1]}, {pad[0], pad[1]}, {dilate[0], dilate[1]},
                             groups, masked}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("kernel"), py::arg("stride"), py::arg("pad"),
      py::arg("dilate"), py::arg("groups"), py::arg("masked"), text);
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
  bind_deformable(module, "deformable_columns_plan", make_deformable_columns_plan, "A plan for bent windows.");
  bind_deformable(module, "deformable_backward_plan", make_deformable_backward_plan, "A plan for their gradients.");
}

}  // namespace mx::vector
