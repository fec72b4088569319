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
constexpr int64_t kWindowBytes = 1 << 20;  // of copied rows, at least what a group of tiles touches

// Images of a convolution's data and of its results.
template <class T>
Images<T> data_of(const WinogradProblem& p) {
  return {p.images, p.channels, p.height * p.width};
}
template <class T>
Images<T> results_of(const WinogradProblem& p) {
  return {p.images, p.filters, p.out_height * p.out_width};
}

struct Rows {  // count through all images
  int64_t begin, end;
};

// What tiles [begin, end) touch of a tensor, of whose images a tile reaches `reach` rows, from `pad` above the first.
Rows rows_of(const WinogradProblem& p, int64_t begin, int64_t end, int64_t height, int64_t pad, int64_t reach) {
  const Tile first = tile(p, begin), last = tile(p, end - 1);
  return {first.image * height + std::clamp<int64_t>(first.y - pad, 0, height),
          last.image * height + std::clamp<int64_t>(last.y - pad + reach, 0, height)};
}
Rows data_rows(const WinogradProblem& p, int64_t begin, int64_t end) {
  return rows_of(p, begin, end, p.height, p.pad_top, kTile + kFilter - 1);
}
Rows result_rows(const WinogradProblem& p, int64_t begin, int64_t end) {
  return rows_of(p, begin, end, p.out_height, 0, kTile);
}

// Most rows that any group of tiles touches, and as many more as kWindowBytes hold.
template <class T, class RowsOf>
int64_t capacity(const WinogradProblem& p, int64_t group, int64_t row_size, int64_t rows, const RowsOf& rows_of) {
  int64_t most = 1;
  for (int64_t first = 0; first < p.tiles(); first += group) {
    const Rows touched = rows_of(p, first, std::min(p.tiles(), first + group));
    most = std::max(most, touched.end - touched.begin);
  }
  const int64_t bytes = std::max<int64_t>(row_size, 1) * static_cast<int64_t>(sizeof(T));
  return std::min(rows, std::max(most, kWindowBytes / bytes));
}

}  // namespace

template <class T>
WinogradGradient<T>::WinogradGradient(const WinogradProblem& problem, int threads, bool channels_last)
    : problem_(problem), threads_(threads) {
  const int64_t tiles = std::max<int64_t>(problem.tiles(), 1);
  apart_ = fits_apart<T>(problem, threads);
  if (apart_) {
    group_ = ceil_div(tiles, ceil_div(ceil_div(tiles, kGroupOfSums), threads) * threads);
  } else {
    const int64_t bytes = std::max(kGroupBytes, FilterPoints<T>(problem).bytes() / 2);
    group_ = ceil_div(tiles, ceil_div(tiles, std::clamp(bytes / tile_bytes<T>(problem), kGroupApart, kMostDepth)));
  }
  by_panels_ = !apart_ && group_ == tiles && ceil_div(problem.channels, kPanel<T>) % threads == 0;
  rows_ = out_rows_ = 0;
  if (channels_last) return;
  const WinogradProblem& p = problem;
  rows_ = capacity<T>(p, group_, p.width * p.channels, p.images * p.height, data_rows);
  out_rows_ = capacity<T>(p, group_, p.out_width * p.filters, p.images * p.out_height, result_rows);
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
int64_t WinogradGradient<T>::spaces_size() const {
  const Space one(problem_, group_, by_panels_ ? kPanel<T> : problem_.channels);
  return apart_ ? threads_ * one.size() : one.size() + (by_panels_ ? (threads_ - 1) * one.sum.size() : 0);
}

template <class T>
struct WinogradGradient<T>::Windows {
  const WinogradProblem& problem;
  RowWindow<T> data, out_grad;

  // The tensors with channels last, as far as tiles [begin, end) reach; those before `limit` are next.
  Reached reach(int64_t begin, int64_t end, int64_t limit) {
    const Rows rows = data_rows(problem, begin, end), out_rows = result_rows(problem, begin, end);
    return {data.reach(rows.begin, rows.end, data_rows(problem, begin, limit).end),
            out_grad.reach(out_rows.begin, out_rows.end, result_rows(problem, begin, limit).end)};
  }
};

template <class T>
int64_t WinogradGradient<T>::rows_size() const {
  return rows_ * problem_.width * problem_.channels + out_rows_ * problem_.out_width * problem_.filters;
}

template <class T>
int64_t WinogradGradient<T>::workspace_size() const {
  return spaces_size() + (apart_ ? threads_ : 1) * rows_size();
}

template <class T>
auto WinogradGradient<T>::windows(const Tensors& given, T* workspace, int copy) const -> Windows {
  T* const room = workspace + spaces_size() + copy * rows_size();
  T* const more = room + rows_ * problem_.width * problem_.channels;
  return {problem_,
          {given.data, data_of<T>(problem_), problem_.width, rows_, room},
          {given.out_grad, results_of<T>(problem_), problem_.out_width, out_rows_, more}};
}

template <class T>
void WinogradGradient<T>::transform_tiles(const Reached& tensors, int64_t first, int64_t begin, int64_t end,
                                          const Space& s) const {
  for (int64_t t = begin; t < end; ++t) {
    data_points(problem_, tensors.data, first + t, s.data_points + t * s.data.row, s.data.step);
    gradient_points(problem_, tensors.out_grad, first + t, s.gradient_points + t * s.out_grad.row, s.out_grad.step);
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

// The gradient where there are no results.
template <class T>
void WinogradGradient<T>::clear(T* gradient, const FilterLayout& layout) const {
  for (int64_t filter = 0; filter < problem_.filters; ++filter)
    for (int64_t channel = 0; channel < problem_.channels; ++channel)
      for (int64_t i = 0; i < kFilter; ++i)
        for (int64_t j = 0; j < kFilter; ++j)
          gradient[filter * layout.output + channel * layout.input + i * layout.row + j * layout.column] = 0;
}

template <class T>
void WinogradGradient<T>::run(const T* data, const T* out_grad, T* gradient, const FilterLayout& layout,
                              T* workspace) const {
  if (problem_.tiles() == 0) return clear(gradient, layout);
  const Tensors given{data, out_grad};
  if (by_panels_) return run_by_panels(given, gradient, layout, workspace);
  const int copies = apart_ ? sum_apart(given, workspace) : sum_together(given, workspace);
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
int WinogradGradient<T>::sum_apart(const Tensors& given, T* workspace) const {
  const int64_t tiles = problem_.tiles();
  std::atomic<int> copies{0};
  const auto share = [&](int64_t begin, int64_t end, int thread) {
    const Space mine = space(workspace, thread);  // as many as have a share, counted from 0
    Windows touched = windows(given, workspace, thread);
    copies.fetch_add(1);
    for (int64_t g = begin; g < end; ++g) {
      const int64_t first = g * group_, n = std::min(group_, tiles - first);
      transform_tiles(touched.reach(first, first + n, std::min(end * group_, tiles)), first, 0, n, mine);
      for (int64_t point = 0; point < kPoints; ++point)
        for (int64_t channel = 0; channel < problem_.channels; channel += kPanel<T>)
          multiply_panel(channel, point, n, g > begin, mine.sums + channel, mine);
    }
  };
  parallel_shares(ceil_div(tiles, group_), share, threads_);
  return copies;
}

template <class T>
int WinogradGradient<T>::sum_together(const Tensors& given, T* workspace) const {
  const int64_t tiles = problem_.tiles(), panels = ceil_div(problem_.channels, kPanel<T>);
  const Space ours = space(workspace, 0);
  Windows touched = windows(given, workspace, 0);
  for (int64_t first = 0; first < tiles; first += group_) {
    const int64_t n = std::min(group_, tiles - first);
    const Reached tensors = touched.reach(first, first + n, tiles);
    parallel_shares(n, [&](int64_t begin, int64_t end) { transform_tiles(tensors, first, begin, end, ours); });
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
void WinogradGradient<T>::run_by_panels(const Tensors& given, T* gradient, const FilterLayout& layout,
                                        T* workspace) const {
  const int64_t tiles = problem_.tiles();
  const Space ours = space(workspace, 0);
  Windows touched = windows(given, workspace, 0);
  const Reached tensors = touched.reach(0, tiles, tiles);
  parallel_shares(tiles, [&](int64_t begin, int64_t end) { transform_tiles(tensors, 0, begin, end, ours); });
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
