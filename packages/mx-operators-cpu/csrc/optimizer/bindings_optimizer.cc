// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <tuple>

#include "common/bindings_common.hpp"
#include "optimizer/sgd_adam.hpp"

namespace mx::cpu {
namespace {

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

void bind_optimizer(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def("update_plan", &update_plan, in, out, py::kw_only(), py::arg("rule"), py::arg("updates"),
             py::arg("n_scalars"), "A plan for steps of many weights.");
}

}  // namespace mx::cpu
