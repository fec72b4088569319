// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "softmax/softmax.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

template <PlanPtr (*Kernel)(const Signature&, const SoftmaxOptions&)>
py::object prepare_softmax(Tensors inputs, Tensors outputs, const Dims& view, int axis, bool logarithm,
                           double temperature) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {view, axis, logarithm, temperature}); });
}

}  // namespace

void bind_softmax(py::module_& m) {
  const auto i = py::arg("inputs"), o = py::arg("outputs");
  const auto soft = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("view"), py::arg("axis"), py::arg("logarithm"),
          py::arg("temperature"));
  };
  soft("softmax", &prepare_softmax<softmax>);
  soft("softmax_backward", &prepare_softmax<softmax_backward>);
  const auto entropy = [&](const char* name, PlanPtr (*make)(const Signature&)) {
    m.def(name, [make](Tensors inputs, Tensors outputs) { return prepare(inputs, outputs, make); }, i, o);
  };
  entropy("cross_entropy", &cross_entropy);
  entropy("cross_entropy_backward", &cross_entropy_backward);
  const auto picked = [&](const char* name, PlanPtr (*make)(const Signature&)) {
    const auto not_empty = [](const Spec& spec) {  // labels have any type
      if (spec.size() == 0) throw Unsupported{};
    };
    m.def(
        name, [=](Tensors inputs, Tensors outputs) { return prepare(inputs, outputs, make, not_empty); }, i,
        o);
  };
  picked("picked_softmax", &picked_softmax);
  picked("picked_softmax_backward", &picked_softmax_backward);
  m.def(
      "softmax_output_backward",
      [](Tensors inputs, Tensors outputs, int64_t rows, int64_t classes, int64_t inner,
         double smooth_alpha, bool use_ignore, bool label_is_distribution, const std::string& normalization) {
        SoftmaxOutputOptions options;
        options.rows = rows;
        options.classes = classes;
        options.inner = inner;
        options.smooth_alpha = smooth_alpha;
        options.use_ignore = use_ignore;
        options.label_is_distribution = label_is_distribution;
        options.normalization = normalization == "batch"   ? Normalization::batch
                                : normalization == "valid" ? Normalization::valid
                                                           : Normalization::none;
        return prepare(inputs, outputs, [&](const Signature& s) { return softmax_output_backward(s, options); });
      },
      i, o, py::kw_only(), py::arg("rows"), py::arg("classes"), py::arg("inner"), py::arg("smooth_alpha"), py::arg("use_ignore"),
      py::arg("label_is_distribution"), py::arg("normalization"));
}

}  // namespace mx::cpu
