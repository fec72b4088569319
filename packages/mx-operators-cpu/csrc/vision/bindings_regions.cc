// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "common/bindings_common.hpp"
#include "vision/proposal.hpp"
#include "vision/regions.hpp"

namespace mx::cpu {
namespace {

using Extents = std::pair<int64_t, int64_t>;
using MakeAlign = PlanPtr (*)(std::vector<Spec>, std::vector<Spec>, const AlignOptions&);
using MakePooling = PlanPtr (*)(std::vector<Spec>, std::vector<Spec>, const RegionOptions&);

void bind_align(py::module_& module, const char* name, MakeAlign make, const char* text) {
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

using MakeCounted = PlanPtr (*)(std::vector<Spec>, std::vector<Spec>, const RegionOptions&, int64_t);

// Regions with one number more: samples, or groups.
void bind_counted(py::module_& module, const char* name, MakeCounted make, const char* count, const char* text) {
  module.def(
      name,
      [make](const PySpecs& inputs, const PySpecs& outputs, Extents bins, double scale, int64_t n) {
        return capsule(make(specs(inputs), specs(outputs), {bins.first, bins.second, scale}, n));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("bins"), py::arg("scale"), py::arg(count), text);
}

py::object proposal_plan(const PySpecs& inputs, const PySpecs& outputs, std::vector<std::array<double, 4>> anchors,
                         int64_t stride, int64_t considered, int64_t returned, double threshold, double least_size,
                         bool by_corners, std::string name) {
  return capsule(make_proposal_plan(
      specs(inputs), specs(outputs),
      {std::move(anchors), stride, considered, returned, threshold, least_size, by_corners, std::move(name)}));
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
  bind_counted(module, "rotated_align_plan", make_rotated_align_plan, "samples", "A plan for rotated regions.");
  bind_counted(module, "rotated_align_backward_plan", make_rotated_align_backward_plan, "samples",
               "A plan for their gradient.");
  bind_counted(module, "psroi_pooling_plan", make_psroi_pooling_plan, "groups",
               "A plan for means of windows of channel groups.");
  bind_counted(module, "psroi_pooling_backward_plan", make_psroi_pooling_backward_plan, "groups",
               "A plan for their gradient.");
  module.def("proposal_plan", &proposal_plan, py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("anchors"),
             py::arg("stride"), py::arg("considered"), py::arg("returned"), py::arg("threshold"), py::arg("least_size"),
             py::arg("by_corners"), py::arg("name"), "A plan for region proposals.");
}

}  // namespace mx::cpu
