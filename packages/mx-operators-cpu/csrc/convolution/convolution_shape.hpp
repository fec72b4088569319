// SPDX-License-Identifier: Apache-2.0
//
// A convolution's tensors as oneDNN sees them: data (N, C, spatial), weights ([G,] O, I, spatial),
// whatever order they have in memory.
#pragma once

#include <algorithm>

#include "convolution/onednn_windows.hpp"
#include "convolution/convolution.hpp"
#include "onednn/primitive_program.hpp"

namespace mx::cpu {

struct ConvolutionShape {
  MemoryDesc data, weight, out;  // row-major memory
  Window window;                 // oneDNN's dilation: 0 is dense
  Dims pad_end;
  dnnl::algorithm kind;
  DataType compute;              // of the primitives: of the data, or float32 where that is faster or right
  bool filter_gradients_suit;
  double macs = 0;

  ConvolutionShape(const ConvolutionOptions& options, bool transposed, const Spec& x, const Spec& w, const Spec& y)
      : window(options.window),
        kind(transposed ? dnnl::algorithm::deconvolution_direct : dnnl::algorithm::convolution_direct) {
    if (x.dtype == MX_BFLOAT16 && !has_bfloat16_kernels()) throw Unsupported{};  // float32 between casts is faster
    const int spatial = static_cast<int>(window.kernel.size());
    require_whole(window);
    if (options.groups < 1 || spatial < 1 || spatial > 3 || x.shape.size() != static_cast<size_t>(spatial) + 2) throw Unsupported{};
    std::vector<int> order = {0, options.channels_last ? spatial + 1 : 1};
    for (int i = 0; i < spatial; ++i) order.push_back(options.channels_last ? i + 1 : i + 2);
    data = permuted(x.shape, data_type(x), order);
    out = permuted(y.shape, data_type(y), order);
    weight = weights(options, transposed, w, spatial);
    const Dims in = data.get_dims(), result = out.get_dims();
    std::vector<WindowAxis> axes;
    for (size_t i = 0; i < window.kernel.size(); ++i) {
      window.dilate[i] -= 1;
      const int64_t extent = (window.kernel[i] - 1) * (window.dilate[i] + 1) + 1;
      const int64_t large = transposed ? result[i + 2] : in[i + 2], small = transposed ? in[i + 2] : result[i + 2];
      pad_end.push_back((small - 1) * window.stride[i] + extent - large - window.pad[i]);
      axes.push_back({large, small, extent, window.stride[i], window.pad[i], pad_end.back()});
    }
    filter_gradients_suit = mx::cpu::filter_gradients_suit(axes);
    const int64_t channels = (transposed ? result : in)[1] / options.groups;
    const bool upcast = x.dtype == MX_BFLOAT16 && !bfloat16_kernels_suit(axes, channels);
    compute = upcast ? DataType::f32 : data_type(x);
    const double per_point = static_cast<double>(product(w.shape, 1, w.shape.size()));
    macs = per_point * static_cast<double>(transposed ? x.size() : y.size());
    keeps_ = !upcast && options.channels_last && options.groups == 1 && spatial == 2;
    bytes_ = static_cast<double>(x.bytes() + w.bytes() + y.bytes());
  }

  Cost cost() const { return {2 * macs, bytes_}; }
  int64_t filters() const { return out.get_dims()[1]; }

  // The layout in which a primitive takes or gives data: as it is where channels are last, which costs
  // no reorder and nothing else; else what the primitive likes best.
  MemoryDesc in_primitive(const MemoryDesc& tensor) const { return keeps_ ? tensor : free(tensor); }
  // In the type that primitives compute in, with the layout left to them.
  MemoryDesc free(const MemoryDesc& tensor) const {
    return {tensor.get_dims(), compute, dnnl::memory::format_tag::any};
  }
  // A vector of filters.
  MemoryDesc bias(const Spec& spec) const { return plain(spec.shape, compute); }
  // Gradients of weights skip from row to row slowly where channels are last.
  MemoryDesc in_weight_gradient(const MemoryDesc& tensor) const {
    const bool skips = std::any_of(window.stride.begin(), window.stride.end(), [](int64_t s) { return s > 1; });
    return skips ? free(tensor) : in_primitive(tensor);
  }

 private:
  static MemoryDesc weights(const ConvolutionOptions& options, bool transposed, const Spec& w, int spatial) {
    const bool grouped = options.groups > 1;
    Dims shape = w.shape;
    if (grouped) {
      shape[0] /= options.groups;
      shape.insert(shape.begin(), options.groups);
    }
    const int first = grouped ? 1 : 0;
    const int second = options.channels_last ? first + spatial + 1 : first + 1;
    std::vector<int> order;
    if (grouped) order.push_back(0);
    order.push_back(transposed ? second : first);
    order.push_back(transposed ? first : second);
    for (int i = 0; i < spatial; ++i) order.push_back((options.channels_last ? first + 1 : first + 2) + i);
    return permuted(shape, data_type(w), order);
  }

  double bytes_ = 0;
  bool keeps_ = false;
};

template <class Forward>
typename Forward::primitive_desc make_descriptor(const ConvolutionShape& shape, const MemoryDesc& bias) {
  const Window& w = shape.window;
  return {describing_engine(), dnnl::prop_kind::forward_training, shape.kind, shape.in_primitive(shape.data),
          shape.free(shape.weight), bias, shape.in_primitive(shape.out), w.stride, w.dilate, w.pad, shape.pad_end,
          ProgramBuilder::attributes()};
}

}  // namespace mx::cpu
