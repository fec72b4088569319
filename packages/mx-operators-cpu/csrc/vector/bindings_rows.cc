// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>

#include "bindings.h"
#include "rows.h"

namespace mx::vector {

void bind_rows(py::module_& module) {
  module.def(
      "row_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, const std::string& op, const std::string& rule, int64_t steps,
         int64_t batch, int64_t inner, bool batch_first, std::optional<uint32_t> lengths) {
        static const std::map<std::string, RowRule> rules = {{"mask", RowRule::kMask},
                                                             {"last", RowRule::kLast},
                                                             {"spread", RowRule::kSpread},
                                                             {"reverse", RowRule::kReverse},
                                                             {"shuffle", RowRule::kShuffle}};
        return capsule(make_row_plan(specs(inputs), specs(outputs),
                                     {op, rules.at(rule), steps, batch, inner, batch_first, lengths}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("op"), py::arg("rule"), py::arg("steps"),
      py::arg("batch"), py::arg("inner"), py::arg("batch_first") = false, py::arg("lengths") = std::nullopt,
      "A plan that copies rows by a rule.");
}

}  // namespace mx::vector
