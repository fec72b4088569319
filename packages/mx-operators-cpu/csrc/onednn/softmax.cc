// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "program.h"

namespace mx::onednn {
namespace {

dnnl::algorithm kind(const SoftmaxOptions& options) {
  return options.logarithm ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate;
}

Cost cost(const Spec& spec) {
  return {40.0 * static_cast<double>(spec.size()), 2.0 * static_cast<double>(spec.bytes())};
}

dnnl::softmax_forward::primitive_desc forward_descriptor(const SoftmaxOptions& options, const MemoryDesc& desc) {
  return {cpu_engine(), dnnl::prop_kind::forward_training, kind(options), desc, desc, options.axis,
          ProgramBuilder::attributes()};
}

// slot *= 1 / temperature
void scale(ProgramBuilder& builder, const SoftmaxOptions& options, const MemoryDesc& desc, Slot from, Slot to) {
  builder.step(dnnl::eltwise_forward::primitive_desc(cpu_engine(), dnnl::prop_kind::forward_inference,
                                                     dnnl::algorithm::eltwise_linear, desc, desc,
                                                     static_cast<float>(1 / options.temperature), 0.f,
                                                     ProgramBuilder::attributes()),
               {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}}, needed_by(0));
}

}  // namespace

PlanPtr softmax(const Signature& signature, const SoftmaxOptions& options) {
  const MemoryDesc desc = plain(options.view, signature.inputs[0].type);
  ProgramBuilder builder(signature, cost(signature.outputs[0]));
  Slot from = builder.input(0, desc);
  const Slot to = builder.output(0, desc);
  if (options.temperature != 1) {
    scale(builder, options, desc, from, to);
    from = to;
  }
  builder.step(forward_descriptor(options, desc), {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}}, needed_by(0));
  return builder.build();
}

PlanPtr softmax_backward(const Signature& signature, const SoftmaxOptions& options) {
  const MemoryDesc desc = plain(options.view, signature.inputs[0].type);
  ProgramBuilder builder(signature, cost(signature.outputs[0]));
  const Slot to = builder.output(0, desc);
  builder.step(dnnl::softmax_backward::primitive_desc(cpu_engine(), kind(options), desc, desc, desc, options.axis,
                                                      forward_descriptor(options, desc), ProgramBuilder::attributes()),
               {{DNNL_ARG_DIFF_DST, builder.input(0, desc)}, {DNNL_ARG_DST, builder.input(1, desc)},
                {DNNL_ARG_DIFF_SRC, to}},
               needed_by(0));
  if (options.temperature != 1) scale(builder, options, desc, to, to);
  return builder.build();
}

}  // namespace mx::onednn
