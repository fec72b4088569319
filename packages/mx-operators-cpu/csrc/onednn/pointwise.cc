// SPDX-License-Identifier: Apache-2.0
#include "pointwise.h"

namespace mx::onednn {
namespace {

// (images, channels, positions) of a row-major tensor.
MemoryDesc images(const MemoryDesc& tensor) {
  const Dims dims = tensor.get_dims();
  return plain({dims[0], dims[1], product(dims, 2, dims.size())}, tensor.get_data_type());
}

// (1, filters, channels)
MemoryDesc filters(const MemoryDesc& weight) {
  const Dims dims = weight.get_dims();
  return plain({1, dims[0], dims[1]}, weight.get_data_type());
}

void add_bias(float* y, const float* bias, const Dims& dims) {
  parallel_for(dims[0] * dims[1], [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float shift = bias[r % dims[1]];
      for (int64_t i = 0; i < dims[2]; ++i) y[r * dims[2] + i] += shift;
    }
  });
}

}  // namespace

bool is_pointwise(const ConvolutionOptions& options, const ConvolutionShape& shape) {
  if (options.groups != 1 || options.channels_last || shape.data.get_data_type() != DataType::f32) return false;
  const Window& w = options.window;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    if (w.kernel[i] != 1 || w.stride[i] != 1 || w.pad[i] != 0) return false;
  }
  return true;
}

PlanPtr pointwise_convolution(const Signature& signature, const ConvolutionShape& shape) {
  const MemoryDesc x = images(shape.data), w = filters(shape.weight), y = images(shape.out);
  ProgramBuilder builder(signature, shape.cost());
  const Slot out = builder.output(0, y);
  builder.step(dnnl::matmul::primitive_desc(cpu_engine(), w, x, y, ProgramBuilder::attributes()),
               {{DNNL_ARG_SRC, builder.input(1, w)}, {DNNL_ARG_WEIGHTS, builder.input(0, x)}, {DNNL_ARG_DST, out}},
               needed_by(0));
  if (signature.inputs.size() == 3) {
    const Slot bias = builder.input(2, plain(signature.inputs[2].shape, DataType::f32));
    builder.host(
        [out, bias, dims = y.get_dims()](void* const* slots, const Call&) {
          add_bias(static_cast<float*>(slots[out]), static_cast<const float*>(slots[bias]), dims);
        },
        {out, bias}, needed_by(0));
  }
  return builder.build();
}

void pointwise_data_gradient(ProgramBuilder& builder, const ConvolutionShape& shape, int out_grad, int weight,
                             int data_grad) {
  const MemoryDesc x = images(shape.data), w = filters(shape.weight).permute_axes({0, 2, 1}), y = images(shape.out);
  builder.step(dnnl::matmul::primitive_desc(cpu_engine(), w, y, x, ProgramBuilder::attributes()),
               {{DNNL_ARG_SRC, builder.input(weight, w)}, {DNNL_ARG_WEIGHTS, builder.input(out_grad, y)},
                {DNNL_ARG_DST, builder.output(data_grad, x)}},
               needed_by(data_grad));
}

}  // namespace mx::onednn
