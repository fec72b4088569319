// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "bindings.h"
#include "variates.h"

namespace mx::vector {

void bind_variates(py::module_& module) {
  module.def(
      "variate_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, const std::string& op, const std::string& variate, bool arrays,
         int64_t each) {
        static const std::map<std::string, Variate> variates = {
            {"uniform", Variate::kUniform},     {"normal", Variate::kNormal},
            {"exponential", Variate::kExponential}, {"gamma", Variate::kGamma},
            {"poisson", Variate::kPoisson},     {"negative_binomial", Variate::kNegativeBinomial},
            {"generalized_negative_binomial", Variate::kGeneralized}};
        return capsule(
            make_variate_plan(specs(inputs), specs(outputs), {op, variates.at(variate), arrays, each}));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("op"), py::arg("variate"), py::arg("arrays"),
      py::arg("each"), "A plan for random numbers by rejection.");
  module.def(
      "multinomial_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t each) {
        return capsule(make_multinomial_plan(specs(inputs), specs(outputs), each));
      },
      py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("each"), "A plan for classes by weight.");
}

}  // namespace mx::vector
