// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/winograd_gradient.hpp"

#include <atomic>

#include "convolution/winograd/multiply.hpp"
#include "common/parallel.hpp"
#include "convolution/winograd/tiles.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kGroupOfSums = 48;  // tiles whose products are added to sums at once, in a core's own cache
constexpr int64_t kMostDepth = 128;   // tiles of one product: a panel of them in the first cache

}  // namespace

template <class T>
WinogradGradient<T>::WinogradGradient(const WinogradProblem& problem, int threads)
    : problem_(problem), threads_(threads) {
  const int64_t tiles = problem.tiles();
  apart_ = fits_apart<T>(problem, threads);
  if (apart_) {
    group_ = ceil_div(tiles, ceil_div(ceil_div(tiles, kGroupOfSums), threads) * threads);
  } else {
    const int64_t bytes = std::max(kGroupBytes, FilterPoints<T>(problem).bytes() / 2);
    group_ = ceil_div(tiles, ceil_div(tiles, std::clamp(bytes / tile_bytes<T>(problem), kGroupApart, kMostDepth)));
  }
  by_panels_ = !apart_ && group_ == tiles && ceil_div(problem.channels, kPanel<T>) % threads == 0;
}

template <class T>
struct WinogradGradient<T>::Space {
  Points<T> data, out_grad, sum;  // sums of all channels, or, by panels, of one panel
  T *data_points, *gradient_points, *sums;

  Space(const WinogradProblem& p, int64_t group, int64_t width)
      : data(group, p.channels), out_grad(group, p.filters), sum(p.filters, width) {}
  int64_t size() const { return data.size() + out_grad.size() + sum.size(); }
};

template <class T>
auto WinogradGradient<T>::space(T* workspace, int copy) const -> Space {
  Space found(problem_, group_, by_panels_ ? kPanel<T> : problem_.channels);
  found.data_points = workspace + copy * found.size();
  found.gradient_points = found.data_points + found.data.size();
  found.sums = found.gradient_points + found.out_grad.size();
  return found;
}

template <class T>
int64_t WinogradGradient<T>::workspace_size() const {
  const Space one(problem_, group_, by_panels_ ? kPanel<T> : problem_.channels);
  return apart_ ? threads_ * one.size() : one.size() + (by_panels_ ? (threads_ - 1) * one.sum.size() : 0);
}

template <class T>
void WinogradGradient<T>::transform_tiles(const T* data, const T* out_grad, int64_t first, int64_t begin,
                                          int64_t end, const Space& s) const {
  for (int64_t t = begin; t < end; ++t) {
    data_points(problem_, data, first + t, s.data_points + t * s.data.row, s.data.step);
    gradient_points(problem_, out_grad, first + t, s.gradient_points + t * s.out_grad.row, s.out_grad.step);
  }
}

// The product of one point and of the channels from `channel` on, a panel of them.
template <class T>
void WinogradGradient<T>::multiply_panel(int64_t channel, int64_t point, int64_t tiles, bool add, T* sums,
                                         const Space& s) const {
  multiply({s.gradient_points + point * s.out_grad.step, 1, s.out_grad.row},
           s.data_points + point * s.data.step + channel, s.data.row, problem_.filters, tiles,
           std::min(kPanel<T>, problem_.channels - channel), sums + point * s.sum.step, s.sum.row, add);
}

// Transforms the sums of one filter and of the channels [first, first + n).
template <class T>
void WinogradGradient<T>::deliver(const T* sums, int64_t step, int64_t filter, int64_t first, int64_t n,
                                  T* gradient, const FilterLayout& layout) {
  for (int64_t c = 0; c < n; c += kLanesOf<T>)
    transform_filter_gradient(sums + c, step, gradient + filter * layout.output + (first + c) * layout.input, layout);
}

template <class T>
void WinogradGradient<T>::run(const T* data, const T* out_grad, T* gradient, const FilterLayout& layout,
                              T* workspace) const {
  if (by_panels_) return run_by_panels(data, out_grad, gradient, layout, workspace);
  const int copies = apart_ ? sum_apart(data, out_grad, workspace) : sum_together(data, out_grad, workspace);
  parallel_shares(problem_.filters, [&](int64_t begin, int64_t end) {
    const Space total = space(workspace, 0);
    for (int64_t filter = begin; filter < end; ++filter) {
      T* sums = total.sums + filter * total.sum.row;
      for (int copy = 1; copy < copies; ++copy) {
        const T* more = space(workspace, copy).sums + filter * total.sum.row;
        for (int64_t point = 0; point < kPoints; ++point) {
          const int64_t offset = point * total.sum.step;
          for (int64_t c = 0; c < problem_.channels; ++c) sums[offset + c] += more[offset + c];
        }
      }
      deliver(sums, total.sum.step, filter, 0, problem_.channels, gradient, layout);
    }
  });
}

// How many copies of the sums there are to add up.
template <class T>
int WinogradGradient<T>::sum_apart(const T* data, const T* out_grad, T* workspace) const {
  const int64_t tiles = problem_.tiles();
  std::atomic<int> copies{0};
  const auto share = [&](int64_t begin, int64_t end, int thread) {
    const Space mine = space(workspace, thread);  // as many as have a share, counted from 0
    copies.fetch_add(1);
    for (int64_t g = begin; g < end; ++g) {
      const int64_t first = g * group_, n = std::min(group_, tiles - first);
      transform_tiles(data, out_grad, first, 0, n, mine);
      for (int64_t point = 0; point < kPoints; ++point)
        for (int64_t channel = 0; channel < problem_.channels; channel += kPanel<T>)
          multiply_panel(channel, point, n, g > begin, mine.sums + channel, mine);
    }
  };
  parallel_shares(ceil_div(tiles, group_), share, threads_);
  return copies;
}

template <class T>
int WinogradGradient<T>::sum_together(const T* data, const T* out_grad, T* workspace) const {
  const int64_t tiles = problem_.tiles(), panels = ceil_div(problem_.channels, kPanel<T>);
  const Space ours = space(workspace, 0);
  for (int64_t first = 0; first < tiles; first += group_) {
    const int64_t n = std::min(group_, tiles - first);
    parallel_shares(n, [&](int64_t begin, int64_t end) { transform_tiles(data, out_grad, first, begin, end, ours); });
    parallel_shares(kPoints * panels, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t channel = task % panels * kPanel<T>;
        multiply_panel(channel, task / panels, n, first > 0, ours.sums + channel, ours);
      }
    });
  }
  return 1;
}

template <class T>
void WinogradGradient<T>::run_by_panels(const T* data, const T* out_grad, T* gradient,
                                        const FilterLayout& layout, T* workspace) const {
  const int64_t tiles = problem_.tiles();
  const Space ours = space(workspace, 0);
  parallel_shares(tiles, [&](int64_t begin, int64_t end) { transform_tiles(data, out_grad, 0, begin, end, ours); });
  const auto share = [&](int64_t begin, int64_t end, int thread) {
    T* sums = ours.sums + thread * ours.sum.size();
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t channel = panel * kPanel<T>, n = std::min(kPanel<T>, problem_.channels - channel);
      for (int64_t point = 0; point < kPoints; ++point) multiply_panel(channel, point, tiles, false, sums, ours);
      for (int64_t filter = 0; filter < problem_.filters; ++filter)
        deliver(sums + filter * ours.sum.row, ours.sum.step, filter, channel, n, gradient, layout);
    }
  };
  parallel_shares(ceil_div(problem_.channels, kPanel<T>), share, threads_);
}

template class WinogradGradient<float>;
template class WinogradGradient<double>;

}  // namespace mx::cpu
