// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "common/bindings_common.hpp"
#include "random/random.hpp"
#include "random/variates.hpp"

namespace mx::cpu {
namespace {

py::object random_plan(const PySpecs& inputs, const PySpecs& outputs, const std::string& op,
                       const std::string& distribution, uint64_t blocks, int64_t low,
                       int64_t high) {
  static const std::map<std::string, Distribution> distributions = {
      {"uniform", Distribution::kUniform},
      {"normal", Distribution::kNormal},
      {"exponential", Distribution::kExponential},
      {"integers", Distribution::kIntegers}};
  return capsule(make_random_plan(specs(inputs), specs(outputs),
                                  {op, distributions.at(distribution), low, high, blocks}));
}

py::object dropout_plan(const PySpecs& inputs, const PySpecs& outputs, double p, bool active,
                        uint64_t blocks) {
  return capsule(make_dropout_plan(specs(inputs), specs(outputs), p, active, blocks));
}

}  // namespace

void bind_random(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def("random_plan", &random_plan, in, out, py::kw_only(), py::arg("op"),
             py::arg("distribution"), py::arg("blocks"), py::arg("low") = 0, py::arg("high") = 0,
             "A plan that draws random numbers.");
  module.def("dropout_plan", &dropout_plan, in, out, py::kw_only(), py::arg("p"),
             py::arg("active"), py::arg("blocks"), "A plan for dropout with its mask.");
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
      in, out, py::kw_only(), py::arg("op"), py::arg("variate"), py::arg("arrays"),
      py::arg("each"), "A plan for random numbers by rejection.");
  module.def(
      "multinomial_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t each) {
        return capsule(make_multinomial_plan(specs(inputs), specs(outputs), each));
      },
      in, out, py::kw_only(), py::arg("each"), "A plan for classes by weight.");
}

}  // namespace mx::cpu
