// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "mx_core/pybind_holder.hpp"
#include "pooling/pooling.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

std::unique_ptr<PoolOptions> make_pool_options(Dims kernel, Dims stride, Dims pad, const std::string& type,
                                          bool count_include_pad, int p, bool channels_last) {
  const PoolType kind = type == "max"   ? PoolType::max
                        : type == "avg" ? PoolType::avg
                        : type == "sum" ? PoolType::sum
                                        : PoolType::lp;
  Dims dense(kernel.size(), 1);
  Window window{std::move(kernel), std::move(stride), std::move(dense), std::move(pad)};
  return std::unique_ptr<PoolOptions>(new PoolOptions{std::move(window), kind, count_include_pad, p, channels_last});
}

template <PlanPtr (*Kernel)(const Signature&, const PoolOptions&)>
py::object prepare_pooling(Tensors inputs, Tensors outputs, const PoolOptions& options) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, options); });
}

}  // namespace

void bind_pooling(py::module_& m) {
  py::class_<PoolOptions>(m, "PoolOptions", py::module_local())
      .def("__init__", mx::init(&make_pool_options), py::detail::is_new_style_constructor(), py::kw_only(),
           py::arg("kernel"), py::arg("stride"), py::arg("pad"), py::arg("pool_type"), py::arg("count_include_pad"),
           py::arg("p_value"), py::arg("channels_last"));
  const auto bind = [&](const char* name, auto function) {
    m.def(name, function, py::arg("inputs"), py::arg("outputs"), py::arg("options"));
  };
  bind("pooling", &prepare_pooling<pooling>);
  bind("pooling_backward", &prepare_pooling<pooling_backward>);
}

}  // namespace mx::cpu
