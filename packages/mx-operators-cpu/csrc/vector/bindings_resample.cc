// SPDX-License-Identifier: Apache-2.0
#include <tuple>

#include "bindings.h"
#include "resample.h"

namespace mx::vector {
namespace {

// (begins, columns, weights)
using PyMixing = std::tuple<Shape, Shape, std::vector<double>>;

Mixing mixing(const PyMixing& given) { return {std::get<0>(given), std::get<1>(given), std::get<2>(given)}; }

}  // namespace

void bind_resample(py::module_& module) {
  module.def(
      "resample_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t height, int64_t width, const PyMixing& rows,
         const PyMixing& columns) {
        return capsule(
            make_resample_plan(specs(inputs), specs(outputs), height, width, mixing(rows), mixing(columns)));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("height"), py::arg("width"), py::arg("rows"),
      py::arg("columns"), "A plan that mixes rows and columns of images.");
}

}  // namespace mx::vector
