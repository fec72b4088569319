// SPDX-License-Identifier: Apache-2.0
//
// The kernels as Python functions: (inputs, outputs, parameters...) -> plan capsule, or None when
// oneDNN has no kernel for the signature.  inputs and outputs are sequences of (shape, type code).
#include "bindings.h"

#include <string>

#include "kernels.h"

namespace py = pybind11;

namespace mx::onednn {
namespace {

template <PlanPtr (*Kernel)(const Signature&, const ConvolutionOptions&)>
py::object prepare_convolution(const PySpecs& inputs, const PySpecs& outputs, const Dims& kernel, const Dims& stride,
                               const Dims& dilate, const Dims& pad, int64_t groups, bool channels_last,
                               bool winograd) {
  return prepare(inputs, outputs, [&](const Signature& s) {
    return Kernel(s, {{kernel, stride, dilate, pad}, groups, channels_last, winograd});
  });
}

template <PlanPtr (*Kernel)(const Signature&, const PoolOptions&)>
py::object prepare_pooling(const PySpecs& inputs, const PySpecs& outputs, const Dims& kernel, const Dims& stride,
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

template <PlanPtr (*Kernel)(const Signature&)>
py::object prepare_simple(const PySpecs& inputs, const PySpecs& outputs) {
  return prepare(inputs, outputs, Kernel);
}

template <PlanPtr (*Kernel)(const Signature&, const MatmulOptions&)>
py::object prepare_matmul(const PySpecs& inputs, const PySpecs& outputs, int64_t batch, int64_t m, int64_t k,
                          int64_t n, bool transpose_a, bool transpose_b, bool scaled) {
  return prepare(inputs, outputs, [&](const Signature& s) {
    return Kernel(s, {batch, m, k, n, transpose_a, transpose_b, scaled});
  });
}

template <PlanPtr (*Kernel)(const Signature&, const BatchNormOptions&)>
py::object prepare_batch_norm(const PySpecs& inputs, const PySpecs& outputs, int64_t axis, double eps,
                              double momentum, bool fix_gamma, bool use_batch_stats) {
  return prepare(inputs, outputs, [&](const Signature& s) {
    return Kernel(s, {axis, eps, momentum, fix_gamma, use_batch_stats});
  });
}

template <PlanPtr (*Kernel)(const Signature&, const LayerNormOptions&)>
py::object prepare_layer_norm(const PySpecs& inputs, const PySpecs& outputs, int64_t axis, double eps) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {axis, eps}); });
}

template <PlanPtr (*Kernel)(const Signature&, const GroupNormOptions&)>
py::object prepare_group_norm(const PySpecs& inputs, const PySpecs& outputs, int64_t groups, double eps) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {groups, eps}); });
}

template <PlanPtr (*Kernel)(const Signature&, const LrnOptions&)>
py::object prepare_lrn(const PySpecs& inputs, const PySpecs& outputs, int64_t size, double alpha, double beta,
                       double knorm) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {size, alpha, beta, knorm}); });
}

template <PlanPtr (*Kernel)(const Signature&, const SoftmaxOptions&)>
py::object prepare_softmax(const PySpecs& inputs, const PySpecs& outputs, const Dims& view, int axis, bool logarithm,
                           double temperature) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {view, axis, logarithm, temperature}); });
}

template <PlanPtr (*Kernel)(const Signature&, const AttentionOptions&)>
py::object prepare_attention(const PySpecs& inputs, const PySpecs& outputs, int64_t heads, int64_t parts) {
  return prepare(inputs, outputs, [&](const Signature& s) { return Kernel(s, {heads, parts}); });
}

}  // namespace

PYBIND11_MODULE(_onednn, m) {
  m.doc() = "oneDNN kernels: functions from signatures to plan capsules, or None where there is no kernel.";
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& e) {
      raise_status(e.code(), e.what());
    }
  });
  const auto i = py::arg("inputs"), o = py::arg("outputs");
  const auto window = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("kernel"), py::arg("stride"), py::arg("dilate"),
          py::arg("pad"), py::arg("groups"), py::arg("channels_last"), py::arg("winograd"));
  };
  bind_fused(m);
  window("convolution", &prepare_convolution<convolution>);
  window("convolution_backward", &prepare_convolution<convolution_backward>);
  window("deconvolution", &prepare_convolution<deconvolution>);
  window("deconvolution_backward", &prepare_convolution<deconvolution_backward>);
  m.def("fully_connected", &prepare_simple<fully_connected>, i, o);
  m.def("fully_connected_backward", &prepare_simple<fully_connected_backward>, i, o);
  const auto product = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("batch"), py::arg("m"), py::arg("k"), py::arg("n"),
          py::arg("transpose_a"), py::arg("transpose_b"), py::arg("scaled"));
  };
  product("matmul", &prepare_matmul<matmul>);
  product("dot_backward", &prepare_matmul<dot_backward>);
  const auto pool = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("kernel"), py::arg("stride"), py::arg("pad"),
          py::arg("pool_type"), py::arg("count_include_pad"), py::arg("p_value"), py::arg("channels_last") = false);
  };
  pool("pooling", &prepare_pooling<pooling>);
  pool("pooling_backward", &prepare_pooling<pooling_backward>);
  const auto batch = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("axis"), py::arg("eps"), py::arg("momentum"),
          py::arg("fix_gamma"), py::arg("use_batch_stats"));
  };
  batch("batch_norm", &prepare_batch_norm<batch_norm>);
  batch("batch_norm_backward", &prepare_batch_norm<batch_norm_backward>);
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
  const auto soft = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("view"), py::arg("axis"), py::arg("logarithm"),
          py::arg("temperature"));
  };
  soft("softmax", &prepare_softmax<softmax>);
  soft("softmax_backward", &prepare_softmax<softmax_backward>);
  const auto entropy = [&](const char* name, PlanPtr (*make)(const Signature&)) {
    m.def(name, [make](const PySpecs& inputs, const PySpecs& outputs) { return prepare(inputs, outputs, make); }, i, o);
  };
  entropy("cross_entropy", &cross_entropy);
  entropy("cross_entropy_backward", &cross_entropy_backward);
  m.def(
      "softmax_output_backward",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t rows, int64_t classes, int64_t inner,
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
  bind_recurrent(m);
  const auto attention = [&](const char* name, auto function) {
    m.def(name, function, i, o, py::kw_only(), py::arg("heads"), py::arg("parts"));
  };
  attention("attention_scores", &prepare_attention<attention_scores>);
  attention("attention_scores_backward", &prepare_attention<attention_scores_backward>);
  attention("attention_values", &prepare_attention<attention_values>);
  attention("attention_values_backward", &prepare_attention<attention_values_backward>);
  m.def(
      "fused_attention",
      [](const PySpecs& inputs, const PySpecs& outputs, int64_t heads, double scale) {
        return prepare(inputs, outputs, [&](const Signature& s) { return fused_attention(s, {heads, scale}); });
      },
      i, o, py::kw_only(), py::arg("heads"), py::arg("scale"));
  m.def("threads", [] { return omp_get_max_threads(); }, "Threads of the calling thread's team.");
  m.def("version", [] {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  });
}

}  // namespace mx::onednn
