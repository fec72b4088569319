// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <tuple>

#include "common/bindings_common.hpp"
#include "image/images.hpp"
#include "image/resample.hpp"

namespace mx::cpu {
namespace {

// (begins, columns, weights)
using PyMixing = std::tuple<Shape, Shape, std::vector<double>>;

Mixing mixing(const PyMixing& given) { return {std::get<0>(given), std::get<1>(given), std::get<2>(given)}; }

}  // namespace

void bind_image(py::module_& module) {
  module.def(
      "resample_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t height, int64_t width, const PyMixing& rows,
         const PyMixing& columns) {
        return capsule(
            make_resample_plan(specs(inputs), specs(outputs), height, width, mixing(rows), mixing(columns)));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("height"), py::arg("width"), py::arg("rows"),
      py::arg("columns"), "A plan that mixes rows and columns of images.");
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def(
      "image_resize_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, const PyMixing& rows, const PyMixing& columns,
         const std::string& rounding) {
        static const std::map<std::string, Rounding> kinds = {
            {"none", Rounding::kNone}, {"fixed", Rounding::kFixed}, {"paired", Rounding::kPaired}};
        return capsule(make_image_resize_plan(specs(inputs), specs(outputs), mixing(rows), mixing(columns),
                                              kinds.at(rounding)));
      },
      in, out, py::kw_only(), py::arg("rows"), py::arg("columns"), py::arg("rounding"),
      "A plan for images of another size, channels last.");
  module.def(
      "to_tensor_plan",
      [](const PySpecs& inputs, const PySpecs& outputs) {
        return capsule(make_to_tensor_plan(specs(inputs), specs(outputs)));
      },
      in, out, "A plan that brings channels to the front, over 255.");
  module.def(
      "normalize_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, std::vector<double> mean, std::vector<double> deviation) {
        return capsule(make_normalize_plan(specs(inputs), specs(outputs), std::move(mean), std::move(deviation)));
      },
      in, out, py::arg("mean"), py::arg("deviation"), "A plan that normalises channels.");
  module.def(
      "flip_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t extent, int64_t inner, bool random) {
        return capsule(make_flip_plan(specs(inputs), specs(outputs), extent, inner, random));
      },
      in, out, py::kw_only(), py::arg("extent"), py::arg("inner"), py::arg("random"), "A plan that reverses slices.");
}

}  // namespace mx::cpu
