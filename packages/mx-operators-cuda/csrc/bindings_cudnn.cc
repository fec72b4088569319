// SPDX-License-Identifier: Apache-2.0
//
// cuDNN in Python: loading it, and its plans.
#include "bindings_cudnn.hpp"

#include <pybind11/stl.h>

#include <array>

#include "attention_graph.hpp"
#include "convolution_graph.hpp"
#include "mx_core/gil.hpp"
#include "mx_core/pybind_holder.hpp"
#include "norm_graph.hpp"
#include "rnn_plan.hpp"

namespace mx::cuda {
namespace {

namespace py = pybind11;
using dnn::AttentionPlan;
using dnn::ConvolutionPlan;
using dnn::GraphPlan;
using dnn::LibraryPlan;
using dnn::NormPlan;
using dnn::RnnPlan;
using Extents = std::vector<int64_t>;

// (x, w, y) and (stride, dilation, padding)
using Three = std::tuple<Extents, Extents, Extents>;

// A plan for a GPU, or for one that is described.
template <class Made, class What>
std::shared_ptr<Made> planned(const What& what, size_t workspace, bool converts, std::optional<int32_t> gpu,
                              const std::string& properties) {
  const GilRelease released;  // cuDNN may compile
  const dnn::Choice choice{workspace, converts};
  if (!gpu) return std::make_shared<Made>(what, choice, nullptr, properties);
  const Gpu& here = Gpu::at(*gpu);
  const Current current(here);
  return std::make_shared<Made>(what, choice, &here, properties);
}

std::shared_ptr<ConvolutionPlan> make_plan(int result, int32_t dtype, bool last, bool bias, bool add,
                                           const Three& extents, const Three& window, size_t workspace, bool converts,
                                           std::optional<int32_t> gpu, const std::string& properties, bool residual,
                                           bool relu) {
  if (result < dnn::Convolution::kY || result > dnn::Convolution::kW) {
    throw Error(MX_ERROR_VALUE, "[ConvolutionPlan] result: expected 0 to 2, got " + std::to_string(result));
  }
  const auto& [x, w, y] = extents;
  const auto& [stride, dilate, pad] = window;
  const dnn::Convolution what{static_cast<dnn::Convolution::Result>(result), dtype, last, bias, add, x, w, y, stride,
                              dilate, pad, residual, relu};
  return planned<ConvolutionPlan>(what, workspace, converts, gpu, properties);
}

std::shared_ptr<NormPlan> make_norm(int mode, bool gradient, std::pair<int32_t, int32_t> dtypes, bool last,
                                    const Extents& extents, float epsilon, size_t workspace, std::optional<int32_t> gpu,
                                    const std::string& properties) {
  if (mode != dnn::Norm::kLayer && mode != dnn::Norm::kBatch) {
    throw Error(MX_ERROR_VALUE, "[NormPlan] mode: expected 0 or 2, got " + std::to_string(mode));
  }
  const dnn::Norm what{static_cast<dnn::Norm::Mode>(mode), gradient, dtypes.first, dtypes.second, last, extents, epsilon};
  return planned<NormPlan>(what, workspace, false, gpu, properties);
}

std::shared_ptr<AttentionPlan> make_attention(int stage, int32_t dtype, const std::array<int64_t, 6>& extents,
                                              float scale, size_t workspace, std::optional<int32_t> gpu,
                                              const std::string& properties) {
  if (stage < dnn::Attention::kInference || stage > dnn::Attention::kGradient) {
    throw Error(MX_ERROR_VALUE, "[AttentionPlan] stage: expected 0 to 2, got " + std::to_string(stage));
  }
  const auto [batch, heads, queries, keys, depth, width] = extents;
  const dnn::Attention what{static_cast<dnn::Attention::Stage>(stage), dtype, batch, heads, queries, keys, depth,
                            width, scale};
  return planned<AttentionPlan>(what, workspace, false, gpu, properties);
}

std::shared_ptr<RnnPlan> make_rnn(int cell, bool gradient, int32_t dtype, bool both, bool shows,
                                  const std::array<int32_t, 5>& extents, bool converts, int32_t gpu) {
  if (cell < dnn::Rnn::kRelu || cell > dnn::Rnn::kGru) {
    throw Error(MX_ERROR_VALUE, "[RnnPlan] cell: expected 0 to 3, got " + std::to_string(cell));
  }
  const auto [steps, batch, inputs, units, layers] = extents;
  const dnn::Rnn what{static_cast<dnn::Rnn::Cell>(cell), gradient, dtype, both, shows, steps, batch, inputs, units,
                      layers};
  const GilRelease released;
  const Gpu& here = Gpu::at(gpu);
  const Current current(here);
  return std::make_shared<RnnPlan>(what, converts, here);
}

std::shared_ptr<Library> make_step(std::shared_ptr<LibraryPlan> written, std::shared_ptr<LibraryPlan> added,
                                   const std::vector<PyParameter>& places, const std::vector<PyParameter>& results,
                                   const PyParameter& workspace, size_t then, size_t instead) {
  Library made{std::move(written), std::move(added), {}, {}, parameter(workspace), then, instead};
  for (const PyParameter& place : places) made.places.push_back(parameter(place));
  for (const PyParameter& result : results) made.results.push_back(parameter(result));
  return std::make_shared<Library>(std::move(made));
}

}  // namespace

Parameter parameter(const PyParameter& given) {
  const auto [kind, number, offset] = given;
  if (kind < 0 || kind > Parameter::kNumber) {
    throw Error(MX_ERROR_VALUE, "[launch_plan] parameter kind: expected 0 to 9, got " + std::to_string(kind));
  }
  return {static_cast<Parameter::Kind>(kind), number, offset};
}

void bind_cudnn(py::module_& module) {
  module.def("load_dnn", &dnn::load, py::arg("path"), "Loads cuDNN 9, once per process; its version.");
  py::class_<LibraryPlan, std::shared_ptr<LibraryPlan>>(module, "LibraryPlan", py::module_local())
      .def_property_readonly("workspace", &LibraryPlan::workspace);
  py::class_<GraphPlan, LibraryPlan, std::shared_ptr<GraphPlan>>(module, "GraphPlan", py::module_local())
      .def_property_readonly("engine", &GraphPlan::engine)
      .def_property_readonly("passed_over", &GraphPlan::passed_over);
  py::class_<ConvolutionPlan, GraphPlan, std::shared_ptr<ConvolutionPlan>>(module, "ConvolutionPlan", py::module_local())
      .def("__init__", mx::init(&make_plan), py::detail::is_new_style_constructor(), py::kw_only(), py::arg("result"),
           py::arg("dtype"), py::arg("last"), py::arg("bias"), py::arg("add"), py::arg("extents"), py::arg("window"),
           py::arg("workspace"), py::arg("converts"), py::arg("gpu"), py::arg("properties") = "",
           py::arg("residual") = false, py::arg("relu") = false);
  py::class_<NormPlan, GraphPlan, std::shared_ptr<NormPlan>>(module, "NormPlan", py::module_local())
      .def("__init__", mx::init(&make_norm), py::detail::is_new_style_constructor(), py::kw_only(), py::arg("mode"),
           py::arg("gradient"), py::arg("dtypes"), py::arg("last"), py::arg("extents"), py::arg("epsilon"),
           py::arg("workspace"), py::arg("gpu"), py::arg("properties") = "");
  py::class_<AttentionPlan, GraphPlan, std::shared_ptr<AttentionPlan>>(module, "AttentionPlan", py::module_local())
      .def("__init__", mx::init(&make_attention), py::detail::is_new_style_constructor(), py::kw_only(),
           py::arg("stage"), py::arg("dtype"), py::arg("extents"), py::arg("scale"), py::arg("workspace"),
           py::arg("gpu"), py::arg("properties") = "");
  py::class_<RnnPlan, LibraryPlan, std::shared_ptr<RnnPlan>>(module, "RnnPlan", py::module_local())
      .def("__init__", mx::init(&make_rnn), py::detail::is_new_style_constructor(), py::kw_only(), py::arg("cell"),
           py::arg("gradient"), py::arg("dtype"), py::arg("both"), py::arg("shows"), py::arg("extents"),
           py::arg("converts"), py::arg("gpu"));
  py::class_<Library, std::shared_ptr<Library>>(module, "Library", py::module_local())
      .def("__init__", mx::init(&make_step), py::detail::is_new_style_constructor(), py::arg("written"),
           py::arg("added"), py::kw_only(), py::arg("places"), py::arg("results"), py::arg("workspace"),
           py::arg("then"), py::arg("instead"));
}

}  // namespace mx::cuda
