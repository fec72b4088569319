// SPDX-License-Identifier: Apache-2.0
#include "convolution/depthwise_rows.hpp"

#include <algorithm>

#include "common/clones.hpp"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

// Calls body(tap, begin, end, first) for the taps of a row: results begin to end see elements, the one of result 0 would
// be `first`.
template <class Body>
MX_INLINE void for_taps(const ConvolutionAxis& axis, const Body& body) {
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t first = k * axis.dilate - axis.pad, s = axis.stride, beyond = axis.large - first;
    const int64_t begin = first >= 0 ? 0 : s == 1 ? -first : (-first + s - 1) / s;
    const int64_t end = std::min(axis.small, beyond <= 0 ? 0 : s == 1 ? beyond : (beyond + s - 1) / s);
    if (begin < end) body(k, begin, end, first);
  }
}

MX_CLONES(void, gather_row, (const ConvolutionAxis& axis, double* __restrict small, const double* __restrict large,
                             const double* weight), (axis, small, large, weight)) {
  for_taps(axis, [&](int64_t k, int64_t begin, int64_t end, int64_t first) MX_INLINE_LAMBDA {
    const double w = weight[k];
    const double* from = large + first;
    if (axis.stride == 1) for (int64_t i = begin; i < end; ++i) small[i] += w * from[i];
    else for (int64_t i = begin; i < end; ++i) small[i] += w * from[i * axis.stride];
  });
}

MX_CLONES(void, scatter_row, (const ConvolutionAxis& axis, const double* __restrict small, double* __restrict large,
                              const double* weight), (axis, small, large, weight)) {
  for_taps(axis, [&](int64_t k, int64_t begin, int64_t end, int64_t first) MX_INLINE_LAMBDA {
    const double w = weight[k];
    double* to = large + first;
    if (axis.stride == 1) for (int64_t i = begin; i < end; ++i) to[i] += w * small[i];
    else for (int64_t i = begin; i < end; ++i) to[i * axis.stride] += w * small[i];
  });
}

MX_CLONES(void, add_products, (const ConvolutionAxis& axis, const double* small, const double* large, double* sums),
          (axis, small, large, sums)) {
  for_taps(axis, [&](int64_t k, int64_t begin, int64_t end, int64_t first) MX_INLINE_LAMBDA {
    const double* from = large + first;
    double sum = 0;
    if (axis.stride == 1) {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = begin; i < end; ++i) sum += small[i] * from[i];
    } else {
      for (int64_t i = begin; i < end; ++i) sum += small[i] * from[i * axis.stride];
    }
    sums[k] += sum;
  });
}

void fill(double* to, int64_t n, double value, bool add) {
  if (!add) return static_cast<void>(std::fill_n(to, n, value));
  for (int64_t i = 0; i < n; ++i) to[i] += value;
}

}  // namespace

// Calls body(row of the small image, row of the large one, row of the filter) where all three meet.
template <class Body>
void DepthwiseRows::for_rows(const Body& body) const {
  const ConvolutionAxis &depth = g_.axes[0], &height = g_.axes[1];
  for (int64_t d = 0; d < depth.small; ++d)
    for (int64_t h = 0; h < height.small; ++h)
      for (int64_t i = 0; i < depth.kernel; ++i) {
        const int64_t z = d * depth.stride + i * depth.dilate - depth.pad;
        if (z < 0 || z >= depth.large) continue;
        for (int64_t j = 0; j < height.kernel; ++j) {
          const int64_t y = h * height.stride + j * height.dilate - height.pad;
          if (y < 0 || y >= height.large) continue;
          body(d * height.small + h, z * height.large + y, i * height.kernel + j);
        }
      }
}

void DepthwiseRows::to_small(const double* large, const double* weight, const double* bias, double* to,
                             bool add) const {
  const ConvolutionAxis& width = g_.axes[2];
  const int64_t channels = g_.groups * g_.filters;
  parallel_for(g_.batch * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t channel = plane % channels, image = plane / channels;
      double* small = to + plane * g_.small_area();
      const double* from = large + (image * g_.groups + channel / g_.filters) * g_.large_area();
      const double* filter = weight + channel * g_.taps();
      fill(small, g_.small_area(), bias != nullptr ? bias[channel] : 0, add);
      for_rows([&](int64_t row, int64_t large_row, int64_t filter_row) {
        gather_row(width, small + row * width.small, from + large_row * width.large, filter + filter_row * width.kernel);
      });
    }
  });
}

void DepthwiseRows::to_large(const double* small, const double* weight, const double* bias, double* to,
                             bool add) const {
  const ConvolutionAxis& width = g_.axes[2];
  parallel_for(g_.batch * g_.groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t channel = plane % g_.groups;
      double* large = to + plane * g_.large_area();
      fill(large, g_.large_area(), bias != nullptr ? bias[channel] : 0, add);
      for (int64_t f = 0; f < g_.filters; ++f) {
        const double* from = small + (plane * g_.filters + f) * g_.small_area();
        const double* filter = weight + (channel * g_.filters + f) * g_.taps();
        for_rows([&](int64_t row, int64_t large_row, int64_t filter_row) {
          scatter_row(width, from + row * width.small, large + large_row * width.large,
                      filter + filter_row * width.kernel);
        });
      }
    }
  });
}

void DepthwiseRows::filter_gradient(const double* large, const double* small, double* to, bool add) const {
  const ConvolutionAxis& width = g_.axes[2];
  const int64_t channels = g_.groups * g_.filters;
  parallel_for(channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      double* filter = to + channel * g_.taps();
      if (!add) std::fill_n(filter, g_.taps(), 0.0);
      for (int64_t image = 0; image < g_.batch; ++image) {
        const double* heads = small + (image * channels + channel) * g_.small_area();
        const double* from = large + (image * g_.groups + channel / g_.filters) * g_.large_area();
        for_rows([&](int64_t row, int64_t large_row, int64_t filter_row) {
          add_products(width, heads + row * width.small, from + large_row * width.large,
                       filter + filter_row * width.kernel);
        });
      }
    }
  });
}

}  // namespace mx::cpu
