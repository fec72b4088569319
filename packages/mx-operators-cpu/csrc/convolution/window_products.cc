// SPDX-License-Identifier: Apache-2.0
#include "convolution/window_products.hpp"

#include <algorithm>

namespace mx::cpu {
namespace {

// The weights as lines of channels of the large tensor, summed over filters and the taps of a part.
class TransposedFilters final : public Factor<double> {
 public:
  TransposedFilters(const ConvolutionGeometry& g, const Gather& gather, const double* weight)
      : geometry_(g), gather_(gather), weight_(weight) {}

  void pack(double* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const override {
    const bool last = geometry_.channels_last;
    const int64_t taps = gather_.n_taps(), filters = geometry_.filters;
    const int64_t line_step = last ? 1 : geometry_.taps(), tap_step = last ? geometry_.channels : 1;
    for (int64_t k = 0; k < depth; ++k, panel += width) {
      const int64_t q = begin + k, filter = last ? q % filters : q / taps, tap = last ? q / filters : q % taps;
      const double* from = weight_ + filter * geometry_.window() + first * line_step +
                           gather_.tap_index[static_cast<size_t>(tap)] * tap_step;
      for (int64_t i = 0; i < lines; ++i) panel[i] = from[i * line_step];
      std::fill(panel + lines, panel + width, 0.0);
    }
  }

 private:
  const ConvolutionGeometry& geometry_;
  const Gather& gather_;
  const double* weight_;
};

// Positions of a part, which do not follow each other in the large tensor.
class Scattered final : public Destination<double> {
 public:
  Scattered(const ConvolutionGeometry& g, const Gather& gather, const ImageSteps& steps, double* data, bool add,
            const double* bias)
      : geometry_(g), gather_(gather), steps_(steps), data_(data), add_(add), bias_(bias) {}

  void put(int64_t row, int64_t column, const double* sums, int64_t n, bool first) const override {
    const bool add = add_ || !first;
    const double* bias = first ? bias_ : nullptr;
    if (geometry_.channels_last) {
      double* to = data_ + place(row) * steps_.position + column;
      for (int64_t j = 0; j < n; ++j) {
        const double x = sums[j] + (bias != nullptr ? bias[column + j] : 0);
        to[j] = add ? to[j] + x : x;
      }
      return;
    }
    const double start = bias != nullptr ? bias[row] : 0;
    const int64_t width = gather_.axes[2].positions, step = gather_.step[2];
    for (int64_t j = 0; j < n;) {
      const int64_t end = std::min(n, j + width - (column + j) % width);
      double* to = data_ + row * steps_.channel + place(column + j);
      for (; j < end; ++j, to += step) *to = add ? *to + sums[j] + start : sums[j] + start;
    }
  }

 private:
  int64_t place(int64_t position) const {
    const int64_t x = position % gather_.axes[2].positions, row = position / gather_.axes[2].positions;
    const int64_t at[3] = {row / gather_.axes[1].positions, row % gather_.axes[1].positions, x};
    int64_t found = 0;
    for (size_t i = 0; i < 3; ++i)
      found = found * geometry_.axes[i].large + gather_.first[i] + at[i] * gather_.step[i];
    return found;
  }

  const ConvolutionGeometry& geometry_;
  const Gather& gather_;
  const ImageSteps steps_;
  double* data_;
  const bool add_;
  const double* bias_;
};

bool dense(const Gather& g) { return g.step == std::array<int64_t, 3>{1, 1, 1}; }

}  // namespace

WindowProduct::WindowProduct(const ConvolutionGeometry& geometry, bool to_large, int threads)
    : geometry_(geometry), to_large_(to_large) {
  std::vector<Gather> gathers = to_large ? large_from_small(geometry) : std::vector<Gather>{small_from_large(geometry)};
  const int64_t from = to_large ? geometry.filters : geometry.channels;
  const int64_t made = to_large ? geometry.channels : geometry.filters;
  const int64_t products = geometry.batch * geometry.groups;
  for (Gather& gather : gathers) {
    const int64_t positions = gather.positions(), depth = from * gather.n_taps();
    const int64_t m = geometry.channels_last ? positions : made, n = geometry.channels_last ? made : positions;
    const Gemm<double> gemm(m, n, depth, products * static_cast<int64_t>(gathers.size()), threads);
    parts_.push_back({std::move(gather), gemm, tasks_});
    tasks_ += products * gemm.tasks();
  }
}

size_t WindowProduct::scratch_bytes() const {
  size_t bytes = 0;
  for (const Part& part : parts_) bytes = std::max(bytes, part.gemm.scratch_bytes());
  return bytes;
}

void WindowProduct::run(const Call& call, const double* source, const double* weight, const double* bias, double* to,
                        bool add, const PerThread& panels) const {
  parallel_for(tasks_, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t task = begin; task < end; ++task) {
      const auto behind = std::upper_bound(parts_.begin(), parts_.end(), task,
                                           [](int64_t t, const Part& part) { return t < part.first_task; });
      const Part& part = *(behind - 1);
      run_task(part, task - part.first_task, source, weight, bias, to, add, panels.of<double>(call, thread));
    }
  });
}

void WindowProduct::run_task(const Part& part, int64_t task, const double* source, const double* weight,
                             const double* bias, double* to, bool add, double* panels) const {
  const ConvolutionGeometry& g = geometry_;
  const int64_t which = task / part.gemm.tasks(), image = which / g.groups, group = which % g.groups;
  const ImageSteps from = to_large_ ? g.small() : g.large(), made = to_large_ ? g.large() : g.small();
  const WindowFactor windows(part.gather, {source + image * from.image + group * from.group,
                                           to_large_ ? g.filters : g.channels, from.channel, from.position,
                                           g.channels_last});
  const double* own = weight + group * g.filters * g.window();
  const StridedFactor<double> filters(own, g.window(), 1);
  const TransposedFilters transposed(g, part.gather, own);
  const Factor<double>& weights = to_large_ ? static_cast<const Factor<double>&>(transposed) : filters;
  double* result = to + image * made.image + group * made.group;
  if (bias != nullptr) bias += group * (to_large_ ? g.channels : g.filters);
  const Scattered scattered(g, part.gather, made, result, add, bias);
  const Rows<double> rows(result, g.channels_last ? made.position : made.channel, add,
                          g.channels_last ? nullptr : bias, g.channels_last ? bias : nullptr);
  const Destination<double>& target = dense(part.gather) ? static_cast<const Destination<double>&>(rows) : scattered;
  const int64_t own_task = task % part.gemm.tasks();
  if (g.channels_last) part.gemm.run(own_task, windows, weights, target, panels);
  else part.gemm.run(own_task, weights, windows, target, panels);
}

FilterGradient::FilterGradient(const ConvolutionGeometry& geometry, int threads)
    : geometry_(geometry), gather_(small_from_large(geometry)),
      gemm_(geometry.filters, geometry.window(), geometry.small_area(), geometry.groups, threads) {}

void FilterGradient::run(const Call& call, const double* large, const double* small, double* to, bool add,
                         const PerThread& panels) const {
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
