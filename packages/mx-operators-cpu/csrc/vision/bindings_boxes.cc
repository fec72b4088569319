// SPDX-License-Identifier: Apache-2.0
#include "common/bindings_common.hpp"
#include "vision/boxes.hpp"
#include "vision/multibox.hpp"

namespace mx::cpu {

void bind_boxes(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def(
      "box_iou_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, bool center) {
        return capsule(make_box_iou_plan(specs(inputs), specs(outputs), center));
      },
      in, out, py::kw_only(), py::arg("center"), "A plan for overlaps of boxes.");
  module.def(
      "box_nms_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, double overlap, double valid, int64_t topk,
         int64_t coordinates, int64_t score, int64_t id, int64_t background, bool force, bool center_in,
         bool center_out) {
        return capsule(make_box_nms_plan(
            specs(inputs), specs(outputs),
            {overlap, valid, topk, coordinates, score, id, background, force, center_in, center_out}));
      },
      in, out, py::kw_only(), py::arg("overlap"), py::arg("valid"), py::arg("topk"), py::arg("coordinates"),
      py::arg("score"), py::arg("id"), py::arg("background"), py::arg("force"), py::arg("center_in"),
      py::arg("center_out"), "A plan for suppression of boxes.");
  module.def(
      "box_nms_backward_plan",
      [](const PySpecs& inputs, const PySpecs& outputs) {
        return capsule(make_box_nms_backward_plan(specs(inputs), specs(outputs)));
      },
      in, out, "A plan for the gradient of suppression.");
  module.def(
      "bipartite_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, bool ascending, double threshold, int64_t topk) {
        return capsule(make_bipartite_plan(specs(inputs), specs(outputs), ascending, threshold, topk));
      },
      in, out, py::kw_only(), py::arg("ascending"), py::arg("threshold"), py::arg("topk"),
      "A plan for greedy matching.");
  module.def(
      "box_encode_plan",
      [](const PySpecs& inputs, const PySpecs& outputs) {
        return capsule(make_box_encode_plan(specs(inputs), specs(outputs)));
      },
      in, out, "A plan for boxes relative to anchors.");
  module.def(
      "box_decode_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, bool corner) {
        return capsule(make_box_decode_plan(specs(inputs), specs(outputs), corner));
      },
      in, out, py::kw_only(), py::arg("corner"), "A plan for boxes from offsets.");
  module.def(
      "multibox_prior_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t height, int64_t width,
         const std::vector<double>& half_x, const std::vector<double>& half_y, std::pair<double, double> steps,
         std::pair<double, double> offsets, bool clip) {
        return capsule(make_multibox_prior_plan(specs(inputs), specs(outputs),
                                                {height, width, half_x, half_y, steps.first, steps.second,
                                                 offsets.first, offsets.second, clip}));
      },
      in, out, py::kw_only(), py::arg("height"), py::arg("width"), py::arg("half_x"), py::arg("half_y"),
      py::arg("steps"), py::arg("offsets"), py::arg("clip"), "A plan for anchors.");
  module.def(
      "multibox_target_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, double overlap, double ignored, double mining_ratio,
         double mining_overlap, const std::vector<double>& variances) {
        return capsule(make_multibox_target_plan(specs(inputs), specs(outputs),
                                                 {overlap, ignored, mining_ratio, mining_overlap, variances}));
      },
      in, out, py::kw_only(), py::arg("overlap"), py::arg("ignored"), py::arg("mining_ratio"),
      py::arg("mining_overlap"), py::arg("variances"), "A plan for training targets of anchors.");
  module.def(
      "multibox_detection_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, double threshold, double overlap, bool clip, bool force,
         int64_t topk, const std::vector<double>& variances) {
        return capsule(make_multibox_detection_plan(specs(inputs), specs(outputs),
                                                    {threshold, overlap, clip, force, topk, variances}));
      },
      in, out, py::kw_only(), py::arg("threshold"), py::arg("overlap"), py::arg("clip"), py::arg("force"),
      py::arg("topk"), py::arg("variances"), "A plan for detections.");
}

}  // namespace mx::cpu
