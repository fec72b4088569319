// SPDX-License-Identifier: Apache-2.0
#include "convolution/pointwise.hpp"

#include "matmul/product_step.hpp"
#include "norm/channel_loops.hpp"

namespace mx::cpu {
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
  parallel_shares(dims[0] * dims[1], [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float shift = bias[r % dims[1]];
      for (int64_t i = 0; i < dims[2]; ++i) y[r * dims[2] + i] += shift;
    }
  });
}

// Sums the matrices of every image into one.
void sum_images(const float* parts, float* result, int64_t n, int64_t size) {
  parallel_shares(size, [&](int64_t begin, int64_t end) {
    std::copy(parts + begin, parts + end, result + begin);
    for (int64_t k = 1; k < n; ++k) {
      const float* part = parts + k * size;
      for (int64_t i = begin; i < end; ++i) result[i] += part[i];
    }
  });
}

// weight_grad = sum over images of out_grad x data transposed.
void weight_gradient(ProgramBuilder& builder, const MemoryDesc& x, Slot out_grad, const MemoryDesc& weight) {
  const Dims dims = weight.get_dims();
  const int64_t n = x.get_dims()[0], size = dims[1] * dims[2];
  const MemoryDesc transposed_view = x.permute_axes({0, 2, 1}), parts = plain({n, dims[1], dims[2]}, DataType::f32);
  const Slot grad = builder.output(1, weight), made = builder.target(grad, parts);
  add_product(builder, out_grad, builder.input(1, transposed_view), made, -1, needed_by(1));
  if (made == grad) return;
  builder.host(
      [=](void* const* slots, const Call&) {
        sum_images(static_cast<const float*>(slots[made]), static_cast<float*>(slots[grad]), n, size);
      },
      {made, grad}, needed_by(1));
}

}  // namespace

void sum_positions(const float* out_grad, float* bias_grad, const Dims& dims) {
  const int64_t width = block_channels(dims[2]);
  parallel_shares((dims[1] + width - 1) / width, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * width, n = std::min(width, dims[1] - first);
      double result[kBlockChannels];
      sums(out_grad + first * dims[2], {dims[0], dims[1] * dims[2], n, dims[2]}, result);
      std::copy_n(result, n, bias_grad + first);
    }
  });
}

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
  add_product(builder, builder.input(1, w), builder.input(0, x), out, -1, needed_by(0));
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

bool suits_pointwise_backward(const ConvolutionShape& shape) {
  // A matrix per image is written and summed: they must not outweigh the data.
  const Dims x = shape.data.get_dims(), y = shape.out.get_dims();
  return x[1] * y[1] <= 2 * (x[1] + y[1]) * product(x, 2, x.size());
}

PlanPtr pointwise_backward(const Signature& signature, const ConvolutionShape& shape) {
  const MemoryDesc x = images(shape.data), w = filters(shape.weight), y = images(shape.out);
  Cost cost = shape.cost();
  cost.flops *= 2;
  ProgramBuilder builder(signature, cost);
  const Slot out_grad = builder.input(0, y);
  const MemoryDesc transposed_view = w.permute_axes({0, 2, 1});
  add_product(builder, builder.input(2, transposed_view), out_grad, builder.output(0, x), -1, needed_by(0));
  weight_gradient(builder, x, out_grad, w);
  if (signature.outputs.size() == 3) {
    const Slot bias_grad = builder.output(2, plain(signature.outputs[2].shape, DataType::f32));
    builder.host(
        [out_grad, bias_grad, dims = y.get_dims()](void* const* slots, const Call&) {
          sum_positions(static_cast<const float*>(slots[out_grad]), static_cast<float*>(slots[bias_grad]), dims);
        },
        {out_grad, bias_grad}, needed_by(2));
  }
  return builder.build();
}

}  // namespace mx::cpu
