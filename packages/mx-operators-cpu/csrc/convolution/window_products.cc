// SPDX-License-Identifier: Apache-2.0
#include "convolution/window_products.hpp"

#include <algorithm>

#include "convolution/scattered_products.hpp"

namespace mx::cpu {
namespace {

// With more filters packed windows are used often enough.
constexpr PaddedProduct<double>::Limits kFasterThanPacking = {4, 32, 4.0 / 3};

}  // namespace

WindowProduct::WindowProduct(const ConvolutionGeometry& geometry, bool to_large, int threads)
    : geometry_(geometry), to_large_(to_large), winograd_(WinogradProduct::of(geometry, to_large, threads)) {
  if (winograd_) return;
  std::vector<Gather> gathers = to_large ? large_from_small(geometry) : std::vector<Gather>{small_from_large(geometry)};
  const int64_t from = to_large ? geometry.filters : geometry.channels;
  const int64_t made = to_large ? geometry.channels : geometry.filters;
  const int64_t products = geometry.batch * geometry.groups;
  if (DepthwiseProduct::suits(geometry, to_large, gathers)) {
    depthwise_.emplace(geometry, to_large, gathers);
    return;
  }
  if (PaddedProduct<double>::suits(geometry, to_large, gathers, kFasterThanPacking)) {
    padded_.emplace(geometry, to_large, gathers);
    return;
  }
  for (Gather& gather : gathers) {
    const int64_t positions = gather.positions(), depth = from * gather.n_taps();
    const int64_t m = geometry.channels_last ? positions : made, n = geometry.channels_last ? made : positions;
    const Gemm<double> gemm(m, n, depth, products * static_cast<int64_t>(gathers.size()), threads);
    parts_.push_back({std::move(gather), gemm, tasks_});
    tasks_ += products * gemm.tasks();
  }
}

size_t WindowProduct::scratch_bytes() const {
  size_t bytes = depthwise_ ? depthwise_->bytes() : 0;
  for (const Part& part : parts_) bytes = std::max(bytes, part.gemm.scratch_bytes());
  return bytes;
}

void WindowProduct::run(const Call& call, const double* source, const double* weight,
                        const ConvolutionResult<double>& result, const PerThread& panels, double* shared) const {
  if (to_large_ && !weights_are_finite(geometry_, weight))
    return scatter_products(geometry_, source, weight, result);
  if (winograd_) return winograd_->run(source, weight, result, shared);
  if (depthwise_) return depthwise_->run(call, source, weight, result, panels);
  if (padded_) return padded_->run(source, weight, result, shared);
  parallel_for(tasks_, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t task = begin; task < end; ++task) {
      const auto behind = std::upper_bound(parts_.begin(), parts_.end(), task,
                                           [](int64_t t, const Part& part) { return t < part.first_task; });
      const Part& part = *(behind - 1);
      run_task(part, task - part.first_task, source, weight, result, panels.of<double>(call, thread));
    }
  });
}

void WindowProduct::run_task(const Part& part, int64_t task, const double* source, const double* weight,
                             const ConvolutionResult<double>& result, double* panels) const {
  const ConvolutionGeometry& g = geometry_;
  const int64_t which = task / part.gemm.tasks(), image = which / g.groups, group = which % g.groups;
  const ImageSteps from = to_large_ ? g.small() : g.large();
  const WindowFactor windows(part.gather, {source + image * from.image + group * from.group,
                                           to_large_ ? g.filters : g.channels, from.channel, from.position,
                                           g.channels_last});
  const GroupWeights<double> weights(g, part.gather, to_large_, weight, group);
  const GroupResult<double> made(g, part.gather, to_large_, result, image, group);
  const int64_t own = task % part.gemm.tasks();
  if (g.channels_last) part.gemm.run(own, windows, weights.factor(), made.target(), panels);
  else part.gemm.run(own, weights.factor(), windows, made.target(), panels);
}

FilterGradient::FilterGradient(const ConvolutionGeometry& geometry, int threads)
    : geometry_(geometry), gather_(small_from_large(geometry)),
      gemm_(geometry.filters, geometry.window(), geometry.small_area(), geometry.groups, threads),
      winograd_(WinogradFilterGradient::of(geometry, threads)) {
  if (winograd_) return;
  if (DepthwiseFilterGradient::suits(geometry, gather_)) depthwise_.emplace(geometry, gather_);
  else if (PaddedFilterGradient::suits(geometry, gather_)) padded_.emplace(geometry, gather_);
}

size_t FilterGradient::scratch_bytes() const {
  if (winograd_ || padded_) return 0;
  return depthwise_ ? depthwise_->bytes() : gemm_.scratch_bytes();
}

void FilterGradient::run(const Call& call, const double* large, const double* small, double* to, bool add,
                         const PerThread& panels, double* shared) const {
  if (winograd_) return winograd_->run(large, small, to, add, shared);
  if (depthwise_) return depthwise_->run(call, large, small, to, add, panels);
  if (padded_) return padded_->run(large, small, to, add, shared);
  const ConvolutionGeometry& g = geometry_;
  const ImageSteps from = g.large(), heads = g.small();
  parallel_for(g.groups * gemm_.tasks(), 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / gemm_.tasks();
      for (int64_t image = 0; image < g.batch; ++image) {
        const StridedFactor<double> head(small + image * heads.image + group * heads.group, heads.channel,
                                         heads.position);
        const TapFactor taps(gather_, {large + image * from.image + group * from.group, g.channels, from.channel,
                                       from.position, g.channels_last});
        gemm_.run(task % gemm_.tasks(), head, taps,
                  Rows<double>(to + group * g.filters * g.window(), g.window(), add || image > 0),
                  panels.of<double>(call, thread));
      }
    }
  });
}

}  // namespace mx::cpu
