// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "common/bindings_common.hpp"
#include "loss/ctc.hpp"
#include "loss/hawkes.hpp"

namespace mx::cpu {

void bind_loss(py::module_& module) {
  module.def(
      "ctc_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, bool blank_first, std::optional<uint32_t> data_lengths,
         std::optional<uint32_t> label_lengths) {
        return capsule(make_ctc_plan(specs(inputs), specs(outputs), {blank_first, data_lengths, label_lengths}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("blank_first"), py::arg("data_lengths"),
      py::arg("label_lengths"), "A plan for connectionist temporal classification.");
  using MakeHawkes = PlanPtr (*)(std::vector<Spec>, std::vector<Spec>);
  const auto bind_hawkes = [&](const char* name, MakeHawkes make, const char* text) {
    module.def(
        name,
        [make](const PySpecs& inputs, const PySpecs& outputs) { return capsule(make(specs(inputs), specs(outputs))); },
        py::arg("inputs"), py::arg("outputs"), text);
  };
  bind_hawkes("hawkes_plan", make_hawkes_plan, "A plan for likelihoods of self-exciting processes.");
  bind_hawkes("hawkes_backward_plan", make_hawkes_backward_plan, "A plan for their gradients.");
}

}  // namespace mx::cpu
