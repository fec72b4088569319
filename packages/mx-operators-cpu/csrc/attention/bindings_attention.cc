// SPDX-License-Identifier: Apache-2.0
#include "attention/attention.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

template <PlanPtr (*Kernel)(const Signature&, const AttentionOptions&)>
py::object prepare_attention(Tensors inputs, Tensors outputs, int64_t heads, int64_t parts) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {heads, parts}); });
}

}  // namespace

void bind_attention(py::module_& m) {
  const auto i = py::arg("inputs"), o = py::arg("outputs");
  const auto attention = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("heads"), py::arg("parts"));
  };
  attention("attention_scores", &prepare_attention<attention_scores>);
  attention("attention_scores_backward", &prepare_attention<attention_scores_backward>);
  attention("attention_values", &prepare_attention<attention_values>);
  attention("attention_values_backward", &prepare_attention<attention_values_backward>);
  m.def(
      "fused_attention",
      [](Tensors inputs, Tensors outputs, int64_t heads, double scale) {
        return prepare(inputs, outputs, [&](const Signature& s) { return fused_attention(s, {heads, scale}); });
      },
      i, o, py::kw_only(), py::arg("heads"), py::arg("scale"));
}

}  // namespace mx::cpu
