// SPDX-License-Identifier: Apache-2.0
//
// The vector kernels as Python functions: (..., inputs, outputs) -> plan capsule.  Tensors are given
// as (shape, type code).  What has no loops raises NoKernelError.
#include "bindings.h"

#include <map>
#include <optional>
#include <tuple>

#include "arg.h"
#include "expression_plan.h"
#include "index.h"
#include "loops.h"
#include "movement.h"
#include "pad.h"
#include "random.h"
#include "reduce.h"

namespace mx::vector {

std::vector<Spec> specs(const PySpecs& given) {
  std::vector<Spec> made;
  for (const auto& [shape, dtype] : given) made.emplace_back(shape, dtype);
  return made;
}

py::object capsule(PlanPtr plan) {
  mx_plan* raw = plan.get();
  PyObject* made = PyCapsule_New(raw, MX_PLAN_CAPSULE, [](PyObject* self) {
    auto* held = static_cast<mx_plan*>(PyCapsule_GetPointer(self, MX_PLAN_CAPSULE));
    held->release(held);
  });
  if (made == nullptr) throw py::error_already_set();
  static_cast<void>(plan.release());
  return py::reinterpret_steal<py::object>(made);
}

namespace {

py::object expression_plan(const py::bytes& serialized, const PySpecs& inputs,
                           const PySpecs& outputs, const std::vector<uint32_t>& mutated,
                           bool wide_scalars) {
  return capsule(make_expression_plan(std::string_view(serialized), specs(inputs), specs(outputs),
                                      {mutated, wide_scalars}));
}

py::object reduce_plan(const PySpecs& inputs, const PySpecs& outputs, const std::string& op,
                       const std::vector<bool>& reduced, bool mean, bool root) {
  static const std::map<std::string, ReduceOp> ops = {
      {"sum", kSum},       {"prod", kProd},       {"max", kMax},         {"min", kMin},
      {"nansum", kNanSum}, {"nanprod", kNanProd}, {"sum_abs", kSumAbs}, {"sum_square", kSumSquare}};
  return capsule(
      make_reduce_plan(specs(inputs), specs(outputs), {ops.at(op), reduced, mean, root}));
}

// (input, output, sizes, from strides, to strides, from offset, to offset)
using PyMove = std::tuple<uint32_t, uint32_t, Shape, Shape, Shape, int64_t, int64_t>;
// (output, number, scalar or None)
using PyBackground = std::tuple<uint32_t, double, std::optional<uint32_t>>;

py::object move_plan(const PySpecs& inputs, const PySpecs& outputs,
                     const std::vector<PyMove>& given, const std::vector<PyBackground>& painted,
                     uint32_t n_scalars) {
  std::vector<Move> moves;
  for (const auto& [input, output, sizes, from, to, from_offset, to_offset] : given)
    moves.push_back({input, output, sizes, from, to, from_offset, to_offset});
  std::vector<Background> backgrounds;
  for (const auto& [output, number, scalar] : painted)
    backgrounds.push_back({output, number, scalar});
  return capsule(make_move_plan(specs(inputs), specs(outputs), std::move(moves),
                                std::move(backgrounds), n_scalars));
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

py::object arg_plan(const PySpecs& inputs, const PySpecs& outputs, int64_t outer, int64_t extent,
                    int64_t inner, bool largest) {
  return capsule(make_arg_plan(specs(inputs), specs(outputs), outer, extent, inner, largest));
}

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

PYBIND11_MODULE(_vector, module) {
  module.doc() = "Vector kernels: plans (capsule mx.plan.v1) from normalised parameters.";
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const mx::Error& error) {
      mx::raise_status(error.code(), error.what());
    }
  });
  module.def("instruction_set", [] { return std::string(loops().name); },
             "Name of the loops this CPU runs: baseline, avx2 or avx512.");
  module.def("expression_plan", &expression_plan, py::arg("serialized"), py::arg("inputs"),
             py::arg("outputs"), py::arg("mutated") = std::vector<uint32_t>{},
             py::arg("wide_scalars") = false, "A plan for an elementwise expression.");
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def("reduce_plan", &reduce_plan, in, out, py::arg("op"), py::arg("reduced"),
             py::arg("mean") = false, py::arg("root") = false, "A plan that reduces axes.");
  module.def("move_plan", &move_plan, in, out, py::arg("moves"),
             py::arg("backgrounds") = std::vector<PyBackground>{}, py::arg("n_scalars") = 0,
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
  module.def("arg_plan", &arg_plan, in, out, py::kw_only(), py::arg("outer"), py::arg("extent"),
             py::arg("inner"), py::arg("largest"), "A plan that finds positions of extrema.");
  module.def("random_plan", &random_plan, in, out, py::kw_only(), py::arg("op"),
             py::arg("distribution"), py::arg("blocks"), py::arg("low") = 0, py::arg("high") = 0,
             "A plan that draws random numbers.");
  module.def("dropout_plan", &dropout_plan, in, out, py::kw_only(), py::arg("p"),
             py::arg("active"), py::arg("blocks"), "A plan for dropout with its mask.");
  bind_arrays(module);
  bind_boxes(module);
  bind_composite(module);
  bind_correlation(module);
  bind_ctc(module);
  bind_order(module);
  bind_progression(module);
  bind_regions(module);
  bind_resample(module);
  bind_rows(module);
  bind_sampler(module);
  bind_variates(module);
}

}  // namespace mx::vector
