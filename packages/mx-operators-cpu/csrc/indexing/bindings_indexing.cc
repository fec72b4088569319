// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <tuple>

#include "common/bindings_common.hpp"
#include "indexing/index.hpp"
#include "indexing/pad.hpp"
#include "indexing/sequence.hpp"
#include "indexing/strided_copy.hpp"
#include "indexing/view.hpp"

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
    moves.push_back({input, output, sizes, from, to, from_offset, to_offset, std::nullopt});
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

// Slices of an array's leading axes, as Python resolves them.
std::vector<Cut> cuts_of(const Shape& shape, const py::sequence& begin, const py::sequence& end,
                         const py::sequence& step) {
  const size_t n = begin.size(), steps = step.size();
  if (end.size() != n || (steps != 0 && steps != n) || n > shape.size())
    throw Error(MX_ERROR_VALUE, "[move] expected a begin, an end and perhaps a step for some of " +
                                    std::to_string(shape.size()) + " axes");
  std::vector<Cut> cuts;
  for (size_t i = 0; i < n; ++i) {
    const py::object first = begin[i], last = end[i], stride = steps == 0 ? py::object(py::none()) : step[i];
    const auto slice = py::reinterpret_steal<py::object>(PySlice_New(first.ptr(), last.ptr(), stride.ptr()));
    Py_ssize_t from = 0, to = 0, by = 0;
    if (!slice || PySlice_Unpack(slice.ptr(), &from, &to, &by) != 0) throw py::error_already_set();
    const Py_ssize_t count = PySlice_AdjustIndices(shape[i], &from, &to, by);
    cuts.push_back({from, by, count});
  }
  return cuts;
}

py::object cut_plan(Tensors inputs, Tensors outputs, const std::string& action, const py::sequence& begin,
                    const py::sequence& end, const py::sequence& step) {
  const auto what = action == "put"      ? CutAction::kPut
                    : action == "assign" ? CutAction::kAssign
                    : action == "fill"   ? CutAction::kFill
                                         : CutAction::kTake;
  return plain_plan(inputs, outputs, [&](std::vector<Spec> in, std::vector<Spec> out) {
    const std::vector<Cut> cuts = cuts_of(cut_tensor(in, out, what).shape, begin, end, step);
    return make_cut_plan(std::move(in), std::move(out), cuts, what);
  });
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
      "join_plan",
      [](Tensors inputs, Tensors outputs, int64_t axis, bool new_axis) {
        return plain_plan(inputs, outputs, [&](std::vector<Spec> i, std::vector<Spec> o) {
          return make_join_plan(std::move(i), std::move(o), axis, new_axis);
        });
      },
      in, out, py::kw_only(), py::arg("axis"), py::arg("new_axis") = false, "A plan that puts arrays together.");
  module.def(
      "split_plan",
      [](Tensors inputs, Tensors outputs, int64_t axis, bool without_axis) {
        return plain_plan(inputs, outputs, [&](std::vector<Spec> i, std::vector<Spec> o) {
          return make_split_plan(std::move(i), std::move(o), axis, without_axis);
        });
      },
      in, out, py::kw_only(), py::arg("axis"), py::arg("without_axis") = false, "A plan that cuts an array into pieces.");
  module.def(
      "permute_plan",
      [](Tensors inputs, Tensors outputs, const Shape& order) {
        return plain_plan(inputs, outputs, [&](std::vector<Spec> i, std::vector<Spec> o) {
          return make_permute_plan(std::move(i), std::move(o), order);
        });
      },
      in, out, py::kw_only(), py::arg("order"), "A plan that permutes axes.");
  module.def(
      "broadcast_plan",
      [](Tensors inputs, Tensors outputs, const Shape& shape) {
        return plain_plan(inputs, outputs, [&](std::vector<Spec> i, std::vector<Spec> o) {
          return make_broadcast_plan(std::move(i), std::move(o), shape);
        });
      },
      in, out, py::kw_only(), py::arg("shape"), "A plan that repeats axes of extent 1.");
  module.def("cut_plan", &cut_plan, in, out, py::kw_only(), py::arg("action"), py::arg("begin"), py::arg("end"),
             py::arg("step") = py::tuple(), "A plan that takes a part of an array, or writes one.");
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
