// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "program.h"

namespace mx::onednn {
namespace {

// (batch, rows, columns) whose memory is row-major, or column-major when transposed.
MemoryDesc matrices(int64_t batch, int64_t rows, int64_t columns, bool transposed, DataType type) {
  return {{batch, rows, columns}, type,
          transposed ? Dims{rows * columns, 1, rows} : Dims{rows * columns, columns, 1}};
}

}  // namespace

PlanPtr matmul(const Signature& signature, const MatmulOptions& o) {
  const MemoryDesc a = matrices(o.batch, o.m, o.k, o.transpose_a, signature.inputs[0].type);
  const MemoryDesc b = matrices(o.batch, o.k, o.n, o.transpose_b, signature.inputs[1].type);
  const MemoryDesc c = matrices(o.batch, o.m, o.n, false, signature.outputs[0].type);
  const double points = static_cast<double>(o.batch * o.m) * static_cast<double>(o.n);
  ProgramBuilder builder(signature, {2 * points * static_cast<double>(o.k),
                                     static_cast<double>(a.get_size() + b.get_size() + c.get_size())});
  dnnl::primitive_attr attr = ProgramBuilder::attributes();
  if (o.alpha != 1) {
    dnnl::post_ops scale;
    scale.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(o.alpha), 0.f);
    attr.set_post_ops(scale);
  }
  builder.step(dnnl::matmul::primitive_desc(cpu_engine(), a, b, c, attr),
               {{DNNL_ARG_SRC, builder.input(0, a)}, {DNNL_ARG_WEIGHTS, builder.input(1, b)},
                {DNNL_ARG_DST, builder.output(0, c)}},
               needed_by(0));
  return builder.build();
}

}  // namespace mx::onednn
