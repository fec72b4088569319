// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "bindings.h"
#include "ctc.h"

namespace mx::vector {

void bind_ctc(py::module_& module) {
  module.def(
      "ctc_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, bool blank_first, std::optional<uint32_t> data_lengths,
         std::optional<uint32_t> label_lengths) {
        return capsule(make_ctc_plan(specs(inputs), specs(outputs), {blank_first, data_lengths, label_lengths}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("blank_first"), py::arg("data_lengths"),
      py::arg("label_lengths"), "A plan for connectionist temporal classification.");
}

}  // namespace mx::vector
