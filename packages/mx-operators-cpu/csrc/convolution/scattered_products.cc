// SPDX-License-Identifier: Apache-2.0
#include "convolution/scattered_products.hpp"

#include "common/clones.hpp"
#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

// What is not finite is NaN after a product with 0, and so is the sum.
template <class T>
MX_INLINE T sum_of_zeros(const T* x, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * T(0);
  return sum;
}
MX_CLONES(double, zeros_of, (const double* x, int64_t n), (x, n)) { return sum_of_zeros(x, n); }
MX_CLONES(float, zeros_of, (const float* x, int64_t n), (x, n)) { return sum_of_zeros(x, n); }

// Where an element of the small tensor lies in the large one by a tap, or -1 outside.
int64_t place(const ConvolutionAxis& axis, int64_t at, int64_t tap) {
  const int64_t found = at * axis.stride - axis.pad + tap * axis.dilate;
  return found < axis.large ? found : -1;
}

// One tap of all elements of a channel.
template <class T>
void add_tap(const ConvolutionGeometry& g, const T* small, T weight, int64_t tap, T* large) {
  const auto& [depth, height, width] = g.axes;
  const int64_t from = g.small().position, to = g.large().position;
  const int64_t x = tap % width.kernel, y = tap / width.kernel % height.kernel, z = tap / width.kernel / height.kernel;
  for (int64_t i = 0; i < depth.small; ++i)
    for (int64_t j = 0; j < height.small; ++j) {
      const int64_t plane = place(depth, i, z), row = place(height, j, y);
      if (plane < 0 || row < 0) continue;
      const T* line = small + (i * height.small + j) * width.small * from;
      T* made = large + (plane * height.large + row) * width.large * to;
      for (int64_t k = 0; k < width.small; ++k) {
        const int64_t column = place(width, k, x);
        if (column >= 0) made[column * to] += line[k * from] * weight;
      }
    }
}

}  // namespace

template <class T>
bool weights_are_finite(const ConvolutionGeometry& g, const T* weight) {
  return zeros_of(weight, g.groups * g.filters * g.window()) == T(0);
}

template <class T>
void scatter_products(const ConvolutionGeometry& g, const T* small, const T* weight,
                      const ConvolutionResult<T>& result) {
  const ImageSteps from = g.small(), to = g.large();
  const int64_t filter_step = g.window();
  const int64_t tap_step = g.channels_last ? g.channels : 1, channel_step = g.channels_last ? 1 : g.taps();
  parallel_for(g.batch * g.groups * g.channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t channel = unit % g.channels, group = unit / g.channels % g.groups;
      const int64_t image = unit / g.channels / g.groups;
      T* made = result.to + image * to.image + group * to.group + channel * to.channel;
      const T start = result.bias == nullptr ? T(0) : result.bias[group * g.channels + channel];
      for (int64_t i = 0; i < g.large_area(); ++i)
        made[i * to.position] = result.add ? made[i * to.position] + start : start;
      for (int64_t f = 0; f < g.filters; ++f) {
        const T* heads = small + image * from.image + group * from.group + f * from.channel;
        const T* weights = weight + (group * g.filters + f) * filter_step + channel * channel_step;
        for (int64_t tap = 0; tap < g.taps(); ++tap) add_tap(g, heads, weights[tap * tap_step], tap, made);
      }
    }
  });
}

template bool weights_are_finite(const ConvolutionGeometry&, const float*);
template bool weights_are_finite(const ConvolutionGeometry&, const double*);
template void scatter_products(const ConvolutionGeometry&, const float*, const float*,
                               const ConvolutionResult<float>&);
template void scatter_products(const ConvolutionGeometry&, const double*, const double*,
                               const ConvolutionResult<double>&);

}  // namespace mx::cpu
