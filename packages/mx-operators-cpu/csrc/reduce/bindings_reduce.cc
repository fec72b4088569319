// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "common/bindings_common.hpp"
#include "reduce/all_finite.hpp"
#include "reduce/argmax.hpp"
#include "reduce/histogram.hpp"
#include "reduce/reduce.hpp"
#include "reduce/scan.hpp"

namespace mx::cpu {
namespace {

py::object reduce_plan(const PySpecs& inputs, const PySpecs& outputs, const std::string& op,
                       const std::vector<bool>& reduced, bool mean, bool root) {
  static const std::map<std::string, ReduceOp> ops = {
      {"sum", kSum},       {"prod", kProd},       {"max", kMax},         {"min", kMin},
      {"nansum", kNanSum}, {"nanprod", kNanProd}, {"sum_abs", kSumAbs}, {"sum_square", kSumSquare}};
  return capsule(
      make_reduce_plan(specs(inputs), specs(outputs), {ops.at(op), reduced, mean, root}));
}

py::object arg_plan(Tensors inputs, Tensors outputs, int64_t outer, int64_t extent, int64_t inner, bool largest) {
  return plain_plan(inputs, outputs, [&](std::vector<Spec> in, std::vector<Spec> out) {
    return make_arg_plan(std::move(in), std::move(out), outer, extent, inner, largest);
  });
}

}  // namespace

void bind_reduce(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def("reduce_plan", &reduce_plan, in, out, py::arg("op"), py::arg("reduced"),
             py::arg("mean") = false, py::arg("root") = false, "A plan that reduces axes.");
  module.def("arg_plan", &arg_plan, in, out, py::kw_only(), py::arg("outer"), py::arg("extent"),
             py::arg("inner"), py::arg("largest"), "A plan that finds positions of extrema.");
  module.def(
      "all_finite_plan",
      [](const PySpecs& inputs, const PySpecs& outputs) {
        return capsule(make_all_finite_plan(specs(inputs), specs(outputs)));
      },
      in, out, "A plan that says whether all numbers are finite.");
  module.def("reset_plan", [](const PySpecs& inputs) { return capsule(make_reset_plan(specs(inputs))); }, in,
             "A plan that sets arrays to 0.");
  module.def(
      "scan_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t outer, int64_t extent, int64_t inner, bool reverse) {
        return capsule(make_scan_plan(specs(inputs), specs(outputs), {outer, extent, inner, reverse}));
      },
      in, out, py::kw_only(), py::arg("outer"), py::arg("extent"), py::arg("inner"), py::arg("reverse"),
      "A plan for running sums.");
  module.def(
      "histogram_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, std::vector<double> edges) {
        return capsule(make_histogram_plan(specs(inputs), specs(outputs), std::move(edges)));
      },
      in, out, py::arg("edges"), "A plan that counts values in intervals.");
}

}  // namespace mx::cpu
