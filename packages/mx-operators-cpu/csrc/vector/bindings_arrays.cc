// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"
#include "finite.h"

namespace mx::vector {

void bind_arrays(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def(
      "all_finite_plan",
      [](const PySpecs& inputs, const PySpecs& outputs) {
        return capsule(make_all_finite_plan(specs(inputs), specs(outputs)));
      },
      in, out, "A plan that says whether all numbers are finite.");
  module.def("reset_plan", [](const PySpecs& inputs) { return capsule(make_reset_plan(specs(inputs))); }, in,
             "A plan that sets arrays to 0.");
}

}  // namespace mx::vector
