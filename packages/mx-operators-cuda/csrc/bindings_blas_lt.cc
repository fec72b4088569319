// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt in Python: loading it, and products with an epilogue.
#include <pybind11/stl.h>

#include <array>
#include <utility>

#include "bindings_cudnn.hpp"
#include "mx_core/gil.hpp"
#include "mx_core/pybind_holder.hpp"

namespace mx::cuda {
namespace {

namespace py = pybind11;

std::shared_ptr<lt::ProductPlan> make_plan(int32_t dtype, std::pair<bool, bool> transposed,
                                           std::array<int64_t, 3> sizes, std::array<int64_t, 3> rows, bool bias,
                                           bool relu, size_t workspace, int32_t gpu) {
  const lt::Epilogue what{dtype,    transposed.first, transposed.second, sizes[0], sizes[1], sizes[2],
                          rows[0], rows[1],          rows[2],           bias,     relu};
  const GilRelease released;
  const Gpu& here = Gpu::at(gpu);
  const Current current(here);
  return std::make_shared<lt::ProductPlan>(what, workspace, here);
}

std::shared_ptr<Finished> make_step(std::shared_ptr<lt::ProductPlan> plan, const std::array<PyParameter, 3>& places,
                                    const std::optional<PyParameter>& bias, const PyParameter& workspace,
                                    size_t instead) {
  Finished made{std::move(plan),       parameter(places[0]), parameter(places[1]), parameter(places[2]), std::nullopt,
                parameter(workspace), instead};
  if (bias) made.bias = parameter(*bias);
  return std::make_shared<Finished>(std::move(made));
}

}  // namespace

void bind_blas_lt(py::module_& module) {
  module.def("load_blas_lt", &lt::load, py::arg("path"), "Loads cuBLASLt, once per process; its version.");
  py::class_<lt::ProductPlan, std::shared_ptr<lt::ProductPlan>>(module, "ProductPlan", py::module_local())
      .def("__init__", mx::init(&make_plan), py::detail::is_new_style_constructor(), py::kw_only(), py::arg("dtype"),
           py::arg("transposed"), py::arg("sizes"), py::arg("rows"), py::arg("bias"), py::arg("relu"),
           py::arg("workspace"), py::arg("gpu"))
      .def_property_readonly("workspace", &lt::ProductPlan::workspace);
  py::class_<Finished, std::shared_ptr<Finished>>(module, "Finished", py::module_local())
      .def("__init__", mx::init(&make_step), py::detail::is_new_style_constructor(), py::arg("plan"), py::kw_only(),
           py::arg("places"), py::arg("bias"), py::arg("workspace"), py::arg("instead"));
}

}  // namespace mx::cuda
