// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "onednn/bindings_primitives.hpp"
#include "mx_core/pybind_holder.hpp"
#include "rnn/rnn.hpp"

namespace mx::cpu {
namespace {

// A recurrent stack, as Python hands it over.
struct Recurrent {
  PySpecs inputs, outputs;
  RnnOptions options;
};

std::unique_ptr<Recurrent> make_recurrent(PySpecs inputs, PySpecs outputs, const std::string& mode, int64_t layers,
                                          int64_t directions, int64_t units, bool state_outputs, double dropout,
                                          bool has_mask, bool is_train, uint64_t random_blocks, bool has_lengths,
                                          bool packed) {
  constexpr int64_t kMost = 1 << 20;  // of layers and of units
  if (layers < 1 || layers > kMost || directions < 1 || directions > 2 || units < 1 || units > kMost)
    throw Error(MX_ERROR_VALUE, "[RNN] impossible numbers of layers, directions or units");
  const RnnMode cell = mode == "lstm"       ? RnnMode::lstm
                       : mode == "gru"      ? RnnMode::gru
                       : mode == "rnn_tanh" ? RnnMode::tanh
                                            : RnnMode::relu;
  return std::unique_ptr<Recurrent>(new Recurrent{
      std::move(inputs), std::move(outputs),
      {cell, layers, directions, units, state_outputs, dropout, has_mask, is_train, random_blocks, has_lengths,
       packed}});
}

template <PlanPtr (*Kernel)(const Signature&, const RnnOptions&)>
py::object plan(const Recurrent& r) {
  return prepare({specs(r.inputs), specs(r.outputs)}, [&](const Signature& s) { return Kernel(s, r.options); });
}

}  // namespace

void bind_rnn(py::module_& m) {
  py::class_<Recurrent>(m, "RecurrentStack", py::module_local())
      .def("__init__", mx::init(&make_recurrent), py::detail::is_new_style_constructor(), py::arg("inputs"),
           py::arg("outputs"), py::kw_only(), py::arg("mode"), py::arg("layers"), py::arg("directions"),
           py::arg("units"), py::arg("state_outputs"), py::arg("dropout"), py::arg("has_mask"), py::arg("is_train"),
           py::arg("random_blocks"), py::arg("has_lengths"), py::arg("packed") = false)
      .def("forward", &plan<rnn>)
      .def("backward", &plan<rnn_backward>)
      .def("packed",
           [](const Recurrent& r) {
             const PackedRnn packed =
                 or_else(PackedRnn{}, [&] { return packed_rnn({specs(r.inputs), specs(r.outputs)}, r.options); });
             return py::make_tuple(packed.size, py::tuple(py::cast(packed.format)));
           })
      .def("pack", [](const Recurrent& r, const PySpecs& inputs, const PySpecs& outputs) {
        return prepare({specs(inputs), specs(outputs)},
                       [&](const Signature& s) { return pack_rnn(s, specs(r.inputs).at(0), r.options); });
      });
}

}  // namespace mx::cpu
