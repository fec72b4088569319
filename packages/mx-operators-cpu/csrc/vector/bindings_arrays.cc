// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "bindings.h"
#include "columns.h"
#include "finite.h"
#include "histogram.h"
#include "product.h"
#include "scan.h"
#include "updates.h"

namespace mx::vector {
namespace {

// (image, kernel, stride, dilate, pad)
using PyWindow = std::array<int64_t, 5>;

py::object columns_plan(const PySpecs& inputs, const PySpecs& outputs, const std::vector<PyWindow>& given) {
  std::vector<WindowAxis> axes;
  for (const auto& [image, kernel, stride, dilate, pad] : given) axes.push_back({image, kernel, stride, dilate, pad});
  return capsule(make_columns_to_image_plan(specs(inputs), specs(outputs), std::move(axes)));
}

// (number, run-time scalar or None, input or None, element)
using PySetting = std::tuple<double, std::optional<uint32_t>, std::optional<uint32_t>, uint32_t>;
// (first input, output, settings)
using PyUpdate = std::tuple<uint32_t, uint32_t, std::vector<PySetting>>;

py::object update_plan(const PySpecs& inputs, const PySpecs& outputs, const std::string& rule,
                       const std::vector<PyUpdate>& given, uint32_t n_scalars) {
  static const std::map<std::string, UpdateRule> rules = {{"sgd", UpdateRule::kSgd},
                                                          {"momentum", UpdateRule::kMomentum},
                                                          {"adam", UpdateRule::kAdam},
                                                          {"adamw", UpdateRule::kAdamW}};
  std::vector<Update> updates;
  for (const auto& [first, output, settings] : given) {
    Update update{first, output, {}};
    for (const auto& [number, scalar, input, element] : settings)
      update.settings.push_back({number, scalar, input, element});
    updates.push_back(std::move(update));
  }
  return capsule(make_update_plan(specs(inputs), specs(outputs), rules.at(rule), std::move(updates), n_scalars));
}

}  // namespace

void bind_arrays(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def(
      "all_finite_plan",
      [](const PySpecs& inputs, const PySpecs& outputs) {
        return capsule(make_all_finite_plan(specs(inputs), specs(outputs)));
      },
      in, out, "A plan that says whether all numbers are finite.");
  module.def("update_plan", &update_plan, in, out, py::kw_only(), py::arg("rule"), py::arg("updates"),
             py::arg("n_scalars"), "A plan for steps of many weights.");
  module.def("reset_plan", [](const PySpecs& inputs) { return capsule(make_reset_plan(specs(inputs))); }, in,
             "A plan that sets arrays to 0.");
  module.def(
      "scan_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t outer, int64_t extent, int64_t inner, bool reverse) {
        return capsule(make_scan_plan(specs(inputs), specs(outputs), {outer, extent, inner, reverse}));
      },
      in, out, py::kw_only(), py::arg("outer"), py::arg("extent"), py::arg("inner"), py::arg("reverse"),
      "A plan for running sums.");
  module.def(
      "histogram_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, std::vector<double> edges) {
        return capsule(make_histogram_plan(specs(inputs), specs(outputs), std::move(edges)));
      },
      in, out, py::arg("edges"), "A plan that counts values in intervals.");
  module.def("columns_to_image_plan", &columns_plan, in, out, py::arg("axes"), "A plan that adds windows up.");
  module.def(
      "product_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t batch, int64_t m, int64_t k, int64_t n, bool a, bool b) {
        return capsule(make_product_plan(specs(inputs), specs(outputs), {batch, m, k, n, a, b}));
      },
      in, out, py::kw_only(), py::arg("batch"), py::arg("m"), py::arg("k"), py::arg("n"), py::arg("transpose_a"),
      py::arg("transpose_b"), "A plan for matrix products.");
}

}  // namespace mx::vector
