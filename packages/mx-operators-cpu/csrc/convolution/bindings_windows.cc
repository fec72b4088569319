// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "common/bindings_common.hpp"
#include "convolution/col2im.hpp"
#include "convolution/deformable.hpp"

namespace mx::cpu {
namespace {

// (image, kernel, stride, dilate, pad)
using PyWindow = std::array<int64_t, 5>;

py::object columns_plan(const PySpecs& inputs, const PySpecs& outputs, const std::vector<PyWindow>& given) {
  std::vector<ColumnAxis> axes;
  for (const auto& [image, kernel, stride, dilate, pad] : given) axes.push_back({image, kernel, stride, dilate, pad});
  return capsule(make_columns_to_image_plan(specs(inputs), specs(outputs), std::move(axes)));
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

void bind_windows(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def("columns_to_image_plan", &columns_plan, in, out, py::arg("axes"), "A plan that adds windows up.");
  bind_deformable(module, "deformable_columns_plan", make_deformable_columns_plan, "A plan for bent windows.");
  bind_deformable(module, "deformable_backward_plan", make_deformable_backward_plan, "A plan for their gradients.");
}

}  // namespace mx::cpu
