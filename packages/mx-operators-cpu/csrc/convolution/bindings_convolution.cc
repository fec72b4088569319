// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "convolution/convolution.hpp"
#include "convolution/winograd_steps.hpp"
#include "mx_core/pybind_holder.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

std::unique_ptr<ConvolutionOptions> make_convolution_options(Dims kernel, Dims stride, Dims dilate, Dims pad, int64_t groups,
                                                 bool channels_last) {
  Window window{std::move(kernel), std::move(stride), std::move(dilate), std::move(pad)};
  return std::unique_ptr<ConvolutionOptions>(new ConvolutionOptions{std::move(window), groups, channels_last});
}

template <PlanPtr (*Kernel)(const Signature&, const ConvolutionOptions&)>
py::object prepare_convolution(Tensors inputs, Tensors outputs, ConvolutionOptions options) {
  options.winograd = winograd_allowed();
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, options); });
}

}  // namespace

void bind_convolution(py::module_& m) {
  py::class_<ConvolutionOptions>(m, "ConvolutionOptions", py::module_local())
      .def("__init__", mx::init(&make_convolution_options), py::detail::is_new_style_constructor(), py::kw_only(),
           py::arg("kernel"), py::arg("stride"), py::arg("dilate"), py::arg("pad"), py::arg("groups"),
           py::arg("channels_last"));
  const auto bind = [&](const char* name, auto function) {
    m.def(name, function, py::arg("inputs"), py::arg("outputs"), py::arg("options"));
  };
  bind("convolution", &prepare_convolution<convolution>);
  bind("convolution_backward", &prepare_convolution<convolution_backward>);
  bind("deconvolution", &prepare_convolution<deconvolution>);
  bind("deconvolution_backward", &prepare_convolution<deconvolution_backward>);
}

}  // namespace mx::cpu
