// SPDX-License-Identifier: Apache-2.0
//
// FullyConnected, forward and backward, on row-major memory: the reorder of a large weight would
// cost more than it saves.
#include "kernels.h"
#include "program.h"

namespace mx::onednn {
namespace {

struct Matrices {
  MemoryDesc data, weight, bias, out;
  Cost cost;

  Matrices(const Spec& x, const Spec& w, const Spec* b, const Spec& y) {
    const int64_t hidden = w.shape[0], columns = w.shape[1], rows = x.size() / columns;
    data = plain({rows, columns}, x.type);
    weight = plain({hidden, columns}, w.type);
    out = plain({rows, hidden}, y.type);
    if (b != nullptr) bias = plain({hidden}, b->type);
    cost = {2.0 * static_cast<double>(rows) * static_cast<double>(hidden) * static_cast<double>(columns),
            static_cast<double>(x.bytes() + w.bytes() + y.bytes())};
  }
};

dnnl::inner_product_forward::primitive_desc forward_descriptor(const Matrices& m) {
  return {cpu_engine(), dnnl::prop_kind::forward_training, m.data, m.weight, m.bias, m.out,
          ProgramBuilder::attributes()};
}

}  // namespace

PlanPtr fully_connected(const Signature& signature) {
  const bool biased = signature.inputs.size() == 3;
  const Matrices m(signature.inputs[0], signature.inputs[1], biased ? &signature.inputs[2] : nullptr,
                   signature.outputs[0]);
  ProgramBuilder builder(signature, m.cost);
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_SRC, builder.input(0, m.data)},
                                         {DNNL_ARG_WEIGHTS, builder.input(1, m.weight)},
                                         {DNNL_ARG_DST, builder.output(0, m.out)}};
  if (biased) arguments.emplace_back(DNNL_ARG_BIAS, builder.input(2, m.bias));
  builder.step(forward_descriptor(m), std::move(arguments), needed_by(0));
  return builder.build();
}

PlanPtr fully_connected_backward(const Signature& signature) {
  const bool biased = signature.outputs.size() == 3;
  const Matrices m(signature.inputs[1], signature.inputs[2], biased ? &signature.outputs[2] : nullptr,
                   signature.inputs[0]);
  ProgramBuilder builder(signature, {2 * m.cost.flops, m.cost.bytes});
  const Slot diff_dst = builder.input(0, m.out), src = builder.input(1, m.data), weights = builder.input(2, m.weight);
  const auto hint = forward_descriptor(m);
  builder.step(dnnl::inner_product_backward_data::primitive_desc(cpu_engine(), m.data, m.weight, m.out, hint,
                                                                 ProgramBuilder::attributes()),
               {{DNNL_ARG_DIFF_DST, diff_dst}, {DNNL_ARG_WEIGHTS, weights},
                {DNNL_ARG_DIFF_SRC, builder.output(0, m.data)}},
               needed_by(0));
  ProgramBuilder::Arguments arguments = {{DNNL_ARG_SRC, src}, {DNNL_ARG_DIFF_DST, diff_dst},
                                         {DNNL_ARG_DIFF_WEIGHTS, builder.output(1, m.weight)}};
  if (biased) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, builder.output(2, m.bias));
  builder.step(dnnl::inner_product_backward_weights::primitive_desc(cpu_engine(), m.data, m.weight, m.bias, m.out,
                                                                    hint, ProgramBuilder::attributes()),
               std::move(arguments), needed_by(1) | (biased ? needed_by(2) : 0));
  return builder.build();
}

}  // namespace mx::onednn
