// SPDX-License-Identifier: Apache-2.0
#include "common/bindings_common.hpp"
#include "matmul/matmul.hpp"
#include "matmul/matmul_loops.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

template <PlanPtr (*Kernel)(const Signature&)>
py::object prepare_simple(Tensors inputs, Tensors outputs) {
  return prepare(inputs, outputs, Kernel);
}

template <PlanPtr (*Kernel)(const Signature&, const MatmulOptions&)>
py::object prepare_matmul(Tensors inputs, Tensors outputs, int64_t batch, int64_t m, int64_t k,
                          int64_t n, bool transpose_a, bool transpose_b, bool scaled) {
  return prepare(inputs, outputs, [&](const Signature& s) {
    return Kernel(s, {batch, m, k, n, transpose_a, transpose_b, scaled});
  });
}

}  // namespace

void bind_matmul(py::module_& m) {
  const auto i = py::arg("inputs"), o = py::arg("outputs");
  m.def("fully_connected", &prepare_simple<fully_connected>, i, o);
  m.def("fully_connected_backward", &prepare_simple<fully_connected_backward>, i, o);
  const auto product = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("batch"), py::arg("m"), py::arg("k"), py::arg("n"),
          py::arg("transpose_a"), py::arg("transpose_b"), py::arg("scaled"));
  };
  product("matmul", &prepare_matmul<matmul>);
  product("dot_backward", &prepare_matmul<dot_backward>);
}

void bind_matmul_loops(py::module_& module) {
  const auto in = py::arg("inputs"), out = py::arg("outputs");
  module.def(
      "product_plan",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t batch, int64_t m, int64_t k, int64_t n, bool a, bool b) {
        return capsule(make_product_plan(specs(inputs), specs(outputs), {batch, m, k, n, a, b}));
      },
      in, out, py::kw_only(), py::arg("batch"), py::arg("m"), py::arg("k"), py::arg("n"), py::arg("transpose_a"),
      py::arg("transpose_b"), "A plan for matrix products.");
}

}  // namespace mx::cpu
