// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>

#include "convolution/convolution.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

template <PlanPtr (*Kernel)(const Signature&, const ConvolutionOptions&)>
py::object prepare_convolution(Tensors inputs, Tensors outputs, const Dims& kernel, const Dims& stride,
                               const Dims& dilate, const Dims& pad, int64_t groups, bool channels_last,
                               bool winograd) {
  return prepare(inputs, outputs, [&](const Signature& s) {
    return Kernel(s, {{kernel, stride, dilate, pad}, groups, channels_last, winograd});
  });
}

// MX_WINOGRAD; yes, where it is not set.
bool winograd_allowed() {
  const char* given = std::getenv("MX_WINOGRAD");
  std::string value = given == nullptr ? "" : given;
  value.erase(0, value.find_first_not_of(" \t\n\r"));
  value.erase(value.find_last_not_of(" \t\n\r") + 1);
  if (!value.empty() && value != "0" && value != "1")
    throw Error(MX_ERROR_VALUE, "[MX_WINOGRAD]: expected 0 or 1, got '" + value + "'");
  return value != "0";
}

}  // namespace

void bind_convolution(py::module_& m) {
  const auto i = py::arg("inputs"), o = py::arg("outputs");
  const auto window = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("kernel"), py::arg("stride"), py::arg("dilate"),
          py::arg("pad"), py::arg("groups"), py::arg("channels_last"), py::arg("winograd"));
  };
  window("convolution", &prepare_convolution<convolution>);
  window("convolution_backward", &prepare_convolution<convolution_backward>);
  window("deconvolution", &prepare_convolution<deconvolution>);
  window("deconvolution_backward", &prepare_convolution<deconvolution_backward>);
  m.def("winograd_allowed", &winograd_allowed);
}

}  // namespace mx::cpu
