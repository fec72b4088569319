// SPDX-License-Identifier: Apache-2.0
//
// cuDNN in Python: loading it, and plans of convolutions.
#include "bindings_cudnn.hpp"

#include <pybind11/stl.h>

#include "mx_core/gil.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::cuda {
namespace {

namespace py = pybind11;
using dnn::ConvolutionPlan;
using Extents = std::vector<int64_t>;

// (x, w, y) and (stride, dilation, padding)
using Three = std::tuple<Extents, Extents, Extents>;

std::shared_ptr<ConvolutionPlan> make_plan(int result, int32_t dtype, bool last, bool bias, bool add,
                                           const Three& extents, const Three& window, size_t workspace, bool converts,
                                           std::optional<int32_t> gpu, const std::string& properties) {
  if (result < dnn::Convolution::kY || result > dnn::Convolution::kW) {
    throw Error(MX_ERROR_VALUE, "[ConvolutionPlan] result: expected 0 to 2, got " + std::to_string(result));
  }
  const auto& [x, w, y] = extents;
  const auto& [stride, dilate, pad] = window;
  const dnn::Convolution what{static_cast<dnn::Convolution::Result>(result), dtype, last, bias, add, x, w, y, stride,
                              dilate, pad};
  const GilRelease released;  // cuDNN may compile
  if (!gpu) return std::make_shared<ConvolutionPlan>(what, dnn::Choice{workspace, converts}, nullptr, properties);
  const Gpu& here = Gpu::at(*gpu);
  const Current current(here);
  return std::make_shared<ConvolutionPlan>(what, dnn::Choice{workspace, converts}, &here, properties);
}

std::shared_ptr<Convolved> make_step(std::shared_ptr<ConvolutionPlan> written, std::shared_ptr<ConvolutionPlan> added,
                                     const std::vector<PyParameter>& places, const PyParameter& result,
                                     const PyParameter& workspace, size_t instead) {
  Convolved made{std::move(written), std::move(added), {}, parameter(result), parameter(workspace), instead};
  for (const PyParameter& place : places) made.places.push_back(parameter(place));
  return std::make_shared<Convolved>(std::move(made));
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
  py::class_<ConvolutionPlan, std::shared_ptr<ConvolutionPlan>>(module, "ConvolutionPlan", py::module_local())
      .def("__init__", mx::init(&make_plan), py::detail::is_new_style_constructor(), py::kw_only(), py::arg("result"),
           py::arg("dtype"), py::arg("last"), py::arg("bias"), py::arg("add"), py::arg("extents"), py::arg("window"),
           py::arg("workspace"), py::arg("converts"), py::arg("gpu"), py::arg("properties") = "")
      .def_property_readonly("workspace", &ConvolutionPlan::workspace)
      .def_property_readonly("engine", &ConvolutionPlan::engine)
      .def_property_readonly("passed_over", &ConvolutionPlan::passed_over);
  py::class_<Convolved, std::shared_ptr<Convolved>>(module, "Convolved", py::module_local())
      .def("__init__", mx::init(&make_step), py::detail::is_new_style_constructor(), py::arg("written"),
           py::arg("added"), py::kw_only(), py::arg("places"), py::arg("result"), py::arg("workspace"),
           py::arg("instead"));
}

}  // namespace mx::cuda
