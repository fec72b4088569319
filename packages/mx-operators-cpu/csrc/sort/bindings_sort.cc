// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "common/bindings_common.hpp"
#include "sort/sort.hpp"

namespace mx::cpu {
namespace {

py::object order_plan(const PySpecs& inputs, const PySpecs& outputs, uint32_t data, int64_t outer, int64_t extent,
                      int64_t inner, int64_t k, bool ascending, const std::vector<std::string>& results) {
  static const std::map<std::string, Ranked> kinds = {{"values", Ranked::kValues},
                                                      {"positions", Ranked::kPositions},
                                                      {"mask", Ranked::kMask},
                                                      {"scatter", Ranked::kScatter}};
  std::vector<Ranked> wanted;
  for (const std::string& name : results) wanted.push_back(kinds.at(name));
  return capsule(
      make_order_plan(specs(inputs), specs(outputs), {data, outer, extent, inner, k, ascending, std::move(wanted)}));
}

}  // namespace

void bind_sort(py::module_& module) {
  module.def("order_plan", &order_plan, py::arg("inputs"), py::arg("outputs"), py::kw_only(), py::arg("data"),
             py::arg("outer"), py::arg("extent"), py::arg("inner"), py::arg("k"), py::arg("ascending"),
             py::arg("results"), "A plan that orders elements along an axis.");
}

}  // namespace mx::cpu
