// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "onednn/bindings_primitives.hpp"
#include "mx_core/pybind_holder.hpp"
#include "convolution/fused_layer.hpp"
#include "convolution/winograd_steps.hpp"

namespace mx::cpu {
namespace {

// A fused layer, as Python hands it over.
struct Fused {
  PySpecs inputs, outputs;
  FusedOptions options;

  Signature signature() const { return {specs(inputs), specs(outputs)}; }
};

// Without options of a convolution it is a product.
std::unique_ptr<Fused> make_fused(PySpecs inputs, PySpecs outputs, const ConvolutionOptions* convolution,
                                  const Dims& weight_shape, bool biased, bool residual, bool packed,
                                  const std::string& activation, double alpha, double beta) {
  FusedOptions options;
  options.product = convolution == nullptr;
  if (convolution != nullptr) options.convolution = *convolution;
  options.convolution.winograd = winograd_allowed();
  options.weight_shape = weight_shape;
  options.biased = biased;
  options.residual = residual;
  options.packed = packed;
  options.activation = activation;
  options.alpha = alpha;
  options.beta = beta;
  return std::unique_ptr<Fused>(new Fused{std::move(inputs), std::move(outputs), options});
}

}  // namespace

void bind_fused_layer(py::module_& m) {
  py::class_<Fused>(m, "FusedLayer", py::module_local())
      .def("__init__", mx::init(&make_fused), py::detail::is_new_style_constructor(), py::arg("inputs"),
           py::arg("outputs"), py::arg("convolution"), py::kw_only(), py::arg("weight_shape"), py::arg("biased"),
           py::arg("residual"), py::arg("packed"), py::arg("activation"), py::arg("alpha"), py::arg("beta"))
      .def("plan",
           [](const Fused& f) {
             return prepare(f.signature(), [&](const Signature& s) { return fused_layer(s, f.options); });
           })
      .def("packed_size",
           [](const Fused& f) {
             return or_else(int64_t{0}, [&] { return packed_weight_size(f.signature(), f.options); });
           })
      .def("packed_format",
           [](const Fused& f) {
             return py::tuple(py::cast(
                 or_else(std::vector<int64_t>{}, [&] { return packed_weight_format(f.signature(), f.options); })));
           })
      .def("pack",
           [](const Fused& f, const PySpecs& inputs, const PySpecs& outputs, bool channels_first) {
             return prepare({specs(inputs), specs(outputs)},
                            [&](const Signature& s) { return pack_weight(s, f.signature(), f.options, channels_first); });
           },
           py::arg("inputs"), py::arg("outputs"), py::arg("channels_first") = false);
}

}  // namespace mx::cpu
