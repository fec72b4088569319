// SPDX-License-Identifier: Apache-2.0
#include "norm/norm.hpp"
#include "onednn/bindings_primitives.hpp"

namespace mx::cpu {
namespace {

// Kernels of BatchNorm look at it.
void require_unless_step(const Spec& spec) {
  if (spec.dtype != MX_INT64) require_primitive(spec);
}

template <PlanPtr (*Kernel)(const Signature&, const BatchNormOptions&)>
py::object prepare_batch_norm(Tensors inputs, Tensors outputs, int64_t axis, double eps,
                              double momentum, bool fix_gamma, bool use_batch_stats) {
  const auto make = [&](const Signature& s) {
    return Kernel(s, {axis, eps, momentum, fix_gamma, use_batch_stats});
  };
  return prepare(inputs, outputs, make, &require_unless_step);
}

template <PlanPtr (*Kernel)(const Signature&, const BatchNormOptions&, const RendezvousOptions&)>
py::object prepare_sync(Tensors inputs, Tensors outputs, int64_t axis, double eps, double momentum,
                        bool fix_gamma, const std::string& name, size_t devices, double patience,
                        const py::object& engine) {
  const mx_engine_api* table = nullptr;
  if (!engine.is_none())
    table = import_plugin_table<mx_engine_api>(engine.ptr(), MX_ENGINE_CAPSULE, MX_ENGINE_MAJOR, MX_ENGINE_API_SIZE_1_0,
                                               "mx-operators-cpu");
  const auto make = [&](const Signature& s) {
    return Kernel(s, {axis, eps, momentum, fix_gamma, true}, {name, devices, patience, table});
  };
  return prepare(inputs, outputs, make, &require_unless_step);
}

template <PlanPtr (*Kernel)(const Signature&, const LayerNormOptions&)>
py::object prepare_layer_norm(Tensors inputs, Tensors outputs, int64_t axis, double eps) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {axis, eps}); });
}

template <PlanPtr (*Kernel)(const Signature&, const GroupNormOptions&)>
py::object prepare_group_norm(Tensors inputs, Tensors outputs, int64_t groups, double eps) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {groups, eps}); });
}

template <PlanPtr (*Kernel)(const Signature&, const LrnOptions&)>
py::object prepare_lrn(Tensors inputs, Tensors outputs, int64_t size, double alpha, double beta,
                       double knorm) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {size, alpha, beta, knorm}); });
}

}  // namespace

void bind_norm(py::module_& m) {
  const auto i = py::arg("inputs"), o = py::arg("outputs");
  const auto batch = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("axis"), py::arg("eps"), py::arg("momentum"),
          py::arg("fix_gamma"), py::arg("use_batch_stats"));
  };
  batch("batch_norm", &prepare_batch_norm<batch_norm>);
  batch("batch_norm_backward", &prepare_batch_norm<batch_norm_backward>);
  const auto joint = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("axis"), py::arg("eps"), py::arg("momentum"),
          py::arg("fix_gamma"), py::arg("name"), py::arg("devices"), py::arg("patience"),
          py::arg("engine") = py::none());
  };
  joint("sync_batch_norm", &prepare_sync<sync_batch_norm>);
  joint("sync_batch_norm_backward", &prepare_sync<sync_batch_norm_backward>);
  const auto layer = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("axis"), py::arg("eps"));
  };
  layer("layer_norm", &prepare_layer_norm<layer_norm>);
  layer("layer_norm_backward", &prepare_layer_norm<layer_norm_backward>);
  const auto group = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("groups"), py::arg("eps"));
  };
  group("group_norm", &prepare_group_norm<group_norm>);
  group("group_norm_backward", &prepare_group_norm<group_norm_backward>);
  const auto local = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("size"), py::arg("alpha"), py::arg("beta"), py::arg("knorm"));
  };
  local("lrn", &prepare_lrn<lrn>);
  local("lrn_backward", &prepare_lrn<lrn_backward>);
}

}  // namespace mx::cpu
