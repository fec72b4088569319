// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "common/bindings_common.hpp"
#include "elementwise/arange.hpp"
#include "elementwise/expression_plan.hpp"

namespace mx::cpu {
namespace {

py::object expression_plan(const py::bytes& serialized, Tensors inputs, Tensors outputs,
                           const std::vector<uint32_t>& mutated, bool wide_scalars) {
  return plain_plan(inputs, outputs, [&](std::vector<Spec> in, std::vector<Spec> out) {
    return make_expression_plan(std::string_view(serialized), std::move(in), std::move(out), {mutated, wide_scalars});
  });
}

}  // namespace

void bind_elementwise(py::module_& module) {
  module.def("expression_plan", &expression_plan, py::arg("serialized"), py::arg("inputs"),
             py::arg("outputs"), py::arg("mutated") = std::vector<uint32_t>{},
             py::arg("wide_scalars") = false, "A plan for an elementwise expression.");
  module.def(
      "progression_plan",
      [](Tensors outputs, double start, double step, int64_t repeat, std::optional<double> last) {
        Tensors none;
        return plain_plan(none, outputs, [&](const std::vector<Spec>&, std::vector<Spec> out) {
          return make_progression_plan(std::move(out), {start, step, repeat, last});
        });
      },
      py::arg("outputs"), py::kw_only(), py::arg("start"), py::arg("step"), py::arg("repeat") = 1,
      py::arg("last") = std::nullopt, "A plan for an arithmetic progression.");
}

}  // namespace mx::cpu
