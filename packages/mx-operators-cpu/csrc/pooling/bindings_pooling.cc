// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "pooling/pooling.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

template <PlanPtr (*Kernel)(const Signature&, const PoolOptions&)>
py::object prepare_pooling(Tensors inputs, Tensors outputs, const Dims& kernel, const Dims& stride,
                           const Dims& pad, const std::string& type, bool count_include_pad, int p,
                           bool channels_last) {
  const PoolType kind = type == "max"   ? PoolType::max
                        : type == "avg" ? PoolType::avg
                        : type == "sum" ? PoolType::sum
                                        : PoolType::lp;
  return prepare(inputs, outputs, [&](const Signature& s) {
    return Kernel(s, {{kernel, stride, Dims(kernel.size(), 1), pad}, kind, count_include_pad, p, channels_last});
  });
}

}  // namespace

void bind_pooling(py::module_& m) {
  const auto i = py::arg("inputs"), o = py::arg("outputs");
  const auto pool = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("kernel"), py::arg("stride"), py::arg("pad"),
          py::arg("pool_type"), py::arg("count_include_pad"), py::arg("p_value"), py::arg("channels_last") = false);
  };
  pool("pooling", &prepare_pooling<pooling>);
  pool("pooling_backward", &prepare_pooling<pooling_backward>);
}

}  // namespace mx::cpu
