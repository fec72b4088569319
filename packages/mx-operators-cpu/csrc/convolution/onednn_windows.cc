// SPDX-License-Identifier: Apache-2.0
#include "convolution/onednn_windows.hpp"

#include <algorithm>

#include "oneapi/dnnl/dnnl.hpp"

namespace mx::cpu {
namespace {

// Bits of dnnl_cpu_isa_t, whose values are sets of features.
constexpr int kAvx512Core = dnnl_cpu_isa_avx512_core & ~dnnl_cpu_isa_avx2;
constexpr int kAmx = dnnl_cpu_isa_avx512_core_amx & ~dnnl_cpu_isa_avx512_core_fp16;

bool has(int features) { return (static_cast<int>(dnnl::get_effective_cpu_isa()) & features) == features; }

// Gradients of filters read past transposed rows, or leave taps unwritten, where a row has a window or two,
// padding reaches beyond the middle of a window, or windows skip data; the same windows make forward
// kernels copy more than their buffers hold.
bool usual(const WindowAxis& a) {
  const bool padded_a_little = 2 * a.pad_begin <= a.extent && 2 * a.pad_end <= a.extent;
  const bool skips_little = a.stride == 1 || (a.stride <= std::max<int64_t>(a.extent, 2) && a.small >= 3);
  return padded_a_little && skips_little && a.large >= a.extent;
}

// Kernels for matrix units mix up the channels of windows that do not overlap where these do not fill tiles
// (32 values of bfloat16); three channels of images have kernels of their own.
bool suits_tiles(const std::vector<WindowAxis>& axes, int64_t channels) {
  const bool apart = std::any_of(axes.begin(), axes.end(),
                                 [](const WindowAxis& a) { return a.stride > 1 && a.stride >= a.extent; });
  const bool short_rows = axes.back().stride > 1 && axes.back().small < 6;
  return !short_rows && (!apart || channels % 32 == 0 || channels <= 4);
}

}  // namespace

bool has_bfloat16_kernels() { return has(kAvx512Core); }

bool bfloat16_kernels_suit(const std::vector<WindowAxis>& axes, int64_t channels) {
  return std::all_of(axes.begin(), axes.end(), usual) && (!has(kAmx) || suits_tiles(axes, channels));
}

bool filter_gradients_suit(const std::vector<WindowAxis>& axes) {
  if (axes.size() < 3 || !has(kAvx512Core)) return true;
  const WindowAxis& depth = axes.front();
  return depth.stride == 1 || (2 * depth.pad_begin <= depth.extent && 2 * depth.pad_end <= depth.extent);
}

}  // namespace mx::cpu
