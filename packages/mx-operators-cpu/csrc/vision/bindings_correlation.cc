// SPDX-License-Identifier: Apache-2.0
#include "common/bindings_common.hpp"
#include "vision/correlation.hpp"

namespace mx::cpu {
namespace {

using MakeCorrelation = PlanPtr (*)(std::vector<Spec>, std::vector<Spec>, const CorrelationOptions&);

void bind_one(py::module_& module, const char* name, MakeCorrelation make, const char* text) {
  module.def(
      name,
      [make](const PySpecs& inputs, const PySpecs& outputs, int64_t kernel, int64_t displacement, int64_t stride,
             int64_t step, int64_t pad, bool multiply) {
        return capsule(make(specs(inputs), specs(outputs), {kernel, displacement, stride, step, pad, multiply}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("kernel"), py::arg("displacement"),
      py::arg("stride"), py::arg("step"), py::arg("pad"), py::arg("multiply"), text);
}

}  // namespace

void bind_correlation(py::module_& module) {
  bind_one(module, "correlation_plan", make_correlation_plan, "A plan for the fit of displaced patches.");
  bind_one(module, "correlation_backward_plan", make_correlation_backward_plan, "A plan for its gradients.");
}

}  // namespace mx::cpu
