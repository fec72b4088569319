// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"
#include "regions.h"

namespace mx::vector {
namespace {

using Extents = std::pair<int64_t, int64_t>;
using Make = PlanPtr (*)(std::vector<Spec>, std::vector<Spec>, const AlignOptions&);
using MakePooling = PlanPtr (*)(std::vector<Spec>, std::vector<Spec>, const RegionOptions&);

void bind_align(py::module_& module, const char* name, Make make, const char* text) {
  module.def(
      name,
      [make](const PySpecs& inputs, const PySpecs& outputs, Extents bins, double scale, int64_t samples,
             bool sensitive, bool aligned) {
        return capsule(
            make(specs(inputs), specs(outputs), {{bins.first, bins.second, scale}, samples, sensitive, aligned}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("bins"), py::arg("scale"), py::arg("samples"),
      py::arg("sensitive"), py::arg("aligned"), text);
}

void bind_pooling(py::module_& module, const char* name, MakePooling make, const char* text) {
  module.def(
      name,
      [make](const PySpecs& inputs, const PySpecs& outputs, Extents bins, double scale) {
        return capsule(make(specs(inputs), specs(outputs), {bins.first, bins.second, scale}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("bins"), py::arg("scale"), text);
}

}  // namespace

void bind_regions(py::module_& module) {
  bind_align(module, "roi_align_plan", make_roi_align_plan, "A plan for means of bilinear samples in regions.");
  bind_align(module, "roi_align_backward_plan", make_roi_align_backward_plan, "A plan for their gradient.");
  bind_pooling(module, "roi_pooling_plan", make_roi_pooling_plan, "A plan for maxima in regions.");
  bind_pooling(module, "roi_pooling_backward_plan", make_roi_pooling_backward_plan, "A plan for their gradient.");
}

}  // namespace mx::vector
