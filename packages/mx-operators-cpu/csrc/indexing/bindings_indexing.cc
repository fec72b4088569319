// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <tuple>

#include "common/bindings_common.hpp"
#include "indexing/index.hpp"
#include "indexing/pad.hpp"
#include "indexing/sequence.hpp"
#include "indexing/strided_copy.hpp"

namespace mx::cpu {
namespace {

// (input, output, sizes, from strides, to strides, from offset, to offset)
using PyMove = std::tuple<uint32_t, uint32_t, Shape, Shape, Shape, int64_t, int64_t>;
// (output, number, scalar or None)
using PyFillValue = std::tuple<uint32_t, double, std::optional<uint32_t>>;

py::object move_plan(const PySpecs& inputs, const PySpecs& outputs,
                     const std::vector<PyMove>& given, const std::vector<PyFillValue>& painted,
                     uint32_t n_scalars) {
  std::vector<Move> moves;
  for (const auto& [input, output, sizes, from, to, from_offset, to_offset] : given)
    moves.push_back({input, output, sizes, from, to, from_offset, to_offset});
  std::vector<FillValue> fill_values;
  for (const auto& [output, number, scalar] : painted)
    fill_values.push_back({output, number, scalar});
  return capsule(make_move_plan(specs(inputs), specs(outputs), std::move(moves),
                                std::move(fill_values), n_scalars));
}

py::object index_plan(const PySpecs& inputs, const PySpecs& outputs, const std::string& op,
                      const std::string& action, const std::string& bounds, uint32_t values,
                      uint32_t indices, const Shape& extents, int64_t outer, int64_t n,
                      int64_t inner, bool per_element) {
  const auto what = action == "gather" ? IndexAction::kGather
                    : action == "add"    ? IndexAction::kAdd
                    : action == "assign" ? IndexAction::kAssign
                                         : IndexAction::kSet;
  const auto limit = bounds == "clip"   ? Bounds::kClip
                     : bounds == "wrap"   ? Bounds::kWrap
                     : bounds == "inside" ? Bounds::kInside
                                          : Bounds::kRaise;
  return capsule(make_index_plan(
      specs(inputs), specs(outputs),
      {op, what, limit, values, indices, extents, outer, n, inner, per_element}));
}

py::object one_hot_plan(const PySpecs& inputs, const PySpecs& outputs, int64_t depth) {
  return capsule(make_one_hot_plan(specs(inputs), specs(outputs), depth));
}

}  // namespace

void bind_indexing(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def("move_plan", &move_plan, in, out, py::arg("moves"),
             py::arg("fill_values") = std::vector<PyFillValue>{}, py::arg("n_scalars") = 0,
             "A plan that copies between strided views.");
  module.def(
      "pad_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, const Shape& before, const Shape& behind, const std::string& mode) {
        const PadMode kind = mode == "edge"      ? PadMode::kEdge
                             : mode == "reflect" ? PadMode::kReflect
                                                 : PadMode::kConstant;
        return capsule(make_pad_plan(specs(inputs), specs(outputs), before, behind, kind));
      },
      in, out, py::kw_only(), py::arg("before"), py::arg("behind"), py::arg("mode"),
      "A plan that puts something around an array.");
  module.def("index_plan", &index_plan, in, out, py::kw_only(), py::arg("op"), py::arg("action"),
             py::arg("bounds"), py::arg("values"), py::arg("indices"), py::arg("extents"),
             py::arg("outer"), py::arg("n"), py::arg("inner"), py::arg("per_element") = false,
             "A plan that gathers or scatters rows.");
  module.def("one_hot_plan", &one_hot_plan, in, out, py::arg("depth"),
             "A plan that writes rows with one element set.");
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
      in, out, py::kw_only(), py::arg("op"), py::arg("rule"), py::arg("steps"),
      py::arg("batch"), py::arg("inner"), py::arg("batch_first") = false, py::arg("lengths") = std::nullopt,
      "A plan that copies rows by a rule.");
}

}  // namespace mx::cpu
