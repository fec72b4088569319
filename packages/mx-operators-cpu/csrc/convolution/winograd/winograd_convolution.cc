// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/winograd_convolution.hpp"

#include "convolution/winograd/multiply.hpp"
#include "common/parallel.hpp"
#include "convolution/winograd/tiles.hpp"

namespace mx::cpu {
namespace {

// Transforms `channel`'s filters of the outputs [first, first + kLanesOf<T>) of a panel that begins at `out`.
template <class T>
void transform_block(const FilterPoints<T>& place, const T* filters, const FilterLayout& layout, int64_t channel,
                     int64_t first, T* out) {
  const int64_t panel = first / kPanel<T>;
  transform_filters(filters, layout, channel, first, out + channel * place.width(panel) + first % kPanel<T>,
                    place.step(panel));
}

}  // namespace

template <class T>
int64_t filter_points_size(const WinogradProblem& p) {
  return FilterPoints<T>(p).size();
}

template <class T>
void make_filter_points(const WinogradProblem& p, const T* filters, const FilterLayout& layout, T* points) {
  const FilterPoints<T> place(p);
  parallel_shares(p.filters / kLanesOf<T> * p.channels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / p.channels * kLanesOf<T>;
      transform_block(place, filters, layout, i % p.channels, first, points + place.offset(first / kPanel<T>));
    }
  });
}

template <class T>
MinimalConvolution<T>::MinimalConvolution(const WinogradProblem& problem, const FilterLayout& layout, bool ready,
                                          int threads)
    : problem_(problem), layout_(layout), ready_(ready), threads_(threads) {
  const int64_t tiles = problem.tiles();
  apart_ = fits_apart<T>(problem, threads);
  if (apart_) {
    group_ = ceil_div(tiles, ceil_div(ceil_div(tiles, kGroupApart), threads) * threads);
  } else {
    group_ = ceil_div(tiles, ceil_div(tiles, std::max(kGroupBytes / tile_bytes<T>(problem), kGroupApart)));
  }
  by_panels_ = !ready && !apart_ && group_ == tiles && FilterPoints<T>(problem).panels() % threads == 0;
}

template <class T>
struct MinimalConvolution<T>::Space {
  Points<T> data, result;
  T *data_points, *result_points;

  Space(const WinogradProblem& p, int64_t group) : data(group, p.channels), result(group, p.filters) {}
  int64_t size() const { return data.size() + result.size(); }
};

template <class T>
auto MinimalConvolution<T>::space(T* workspace, int copy) const -> Space {
  Space found(problem_, group_);
  found.data_points = workspace + copy * found.size();
  found.result_points = found.data_points + found.data.size();
  return found;
}

template <class T>
int64_t MinimalConvolution<T>::spaces_size() const {
  return (apart_ ? threads_ : 1) * Space(problem_, group_).size();
}

template <class T>
int64_t MinimalConvolution<T>::workspace_size() const {
  const FilterPoints<T> place(problem_);
  return spaces_size() + (ready_ ? 0 : by_panels_ ? threads_ * kPoints * place.step(0) : place.size());
}

template <class T>
void MinimalConvolution<T>::transform_tiles(const T* data, int64_t first, int64_t begin, int64_t end,
                                            const Space& space) const {
  for (int64_t t = begin; t < end; ++t)
    data_points(problem_, Pixels<T>{data}, first + t, space.data_points + t * space.data.row, space.data.step);
}

// `panel_points`: where the panel's filters are.
template <class T>
void MinimalConvolution<T>::multiply_panel(const T* panel_points, int64_t panel, int64_t point, int64_t tiles,
                                           const Space& space) const {
  const FilterPoints<T> place(problem_);
  const int64_t width = place.width(panel);
  multiply({space.data_points + point * space.data.step, space.data.row, 1}, panel_points + point * place.step(panel),
           width, tiles, problem_.channels, width, space.result_points + point * space.result.step + panel * kPanel<T>,
           space.result.row, false);
}

template <class T>
void MinimalConvolution<T>::deliver_tiles(int64_t first, int64_t begin, int64_t end, const Epilogue<T>& epilogue,
                                          T* out, const Space& space) const {
  for (int64_t i = begin; i < end; ++i) {
    const Tile t = tile(problem_, first + i);
    int64_t pixels[kTile * kTile];
    for_pixels(t.image, t.y, t.x, kTile, problem_.out_height, problem_.out_width, problem_.filters,
               [&](int64_t k, int64_t pixel) { pixels[k] = pixel; });
    transform_result(space.result_points + i * space.result.row, space.result.step, problem_.filters, epilogue, out,
                     pixels);
  }
}

template <class T>
void MinimalConvolution<T>::run(const T* data, const T* filters, const Epilogue<T>& epilogue, T* out,
                                T* workspace) const {
  if (by_panels_) return run_by_panels(data, filters, epilogue, out, workspace);
  const T* points = filters;
  if (!ready_) {
    T* made = workspace + spaces_size();
    make_filter_points(problem_, filters, layout_, made);
    points = made;
  }
  return apart_ ? run_apart(data, points, epilogue, out, workspace)
                : run_together(data, points, epilogue, out, workspace);
}

template <class T>
void MinimalConvolution<T>::run_apart(const T* data, const T* points, const Epilogue<T>& epilogue, T* out,
                                      T* workspace) const {
  const FilterPoints<T> place(problem_);
  const int64_t tiles = problem_.tiles();
  const auto share = [&](int64_t begin, int64_t end, int thread) {
    const Space mine = space(workspace, thread);
    for (int64_t g = begin; g < end; ++g) {
      const int64_t first = g * group_, n = std::min(group_, tiles - first);
      transform_tiles(data, first, 0, n, mine);
      for (int64_t panel = 0; panel < place.panels(); ++panel)
        for (int64_t point = 0; point < kPoints; ++point)
          multiply_panel(points + place.offset(panel), panel, point, n, mine);
      deliver_tiles(first, 0, n, epilogue, out, mine);
    }
  };
  parallel_shares(ceil_div(tiles, group_), share, threads_);
}

template <class T>
void MinimalConvolution<T>::run_together(const T* data, const T* points, const Epilogue<T>& epilogue, T* out,
                                         T* workspace) const {
  const FilterPoints<T> place(problem_);
  const int64_t tiles = problem_.tiles();
  const Space ours = space(workspace, 0);
  for (int64_t first = 0; first < tiles; first += group_) {
    const int64_t n = std::min(group_, tiles - first);
    parallel_shares(n, [&](int64_t begin, int64_t end) { transform_tiles(data, first, begin, end, ours); });
    parallel_shares(kPoints * place.panels(), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t panel = task / kPoints;
        multiply_panel(points + place.offset(panel), panel, task % kPoints, n, ours);
      }
    });
    parallel_shares(n, [&](int64_t begin, int64_t end) { deliver_tiles(first, begin, end, epilogue, out, ours); });
  }
}

template <class T>
void MinimalConvolution<T>::run_by_panels(const T* data, const T* filters, const Epilogue<T>& epilogue, T* out,
                                          T* workspace) const {
  const FilterPoints<T> place(problem_);
  const int64_t tiles = problem_.tiles();
  const Space ours = space(workspace, 0);
  parallel_shares(tiles, [&](int64_t begin, int64_t end) { transform_tiles(data, 0, begin, end, ours); });
  const auto share = [&](int64_t begin, int64_t end, int thread) {
    T* made = workspace + spaces_size() + thread * kPoints * place.step(0);
    for (int64_t panel = begin; panel < end; ++panel) {
      for (int64_t k = 0; k < place.width(panel); k += kLanesOf<T>)
        for (int64_t channel = 0; channel < problem_.channels; ++channel)
          transform_block(place, filters, layout_, channel, panel * kPanel<T> + k, made);
      for (int64_t point = 0; point < kPoints; ++point) multiply_panel(made, panel, point, tiles, ours);
    }
  };
  parallel_shares(place.panels(), share, threads_);
  parallel_shares(tiles, [&](int64_t begin, int64_t end) { deliver_tiles(0, begin, end, epilogue, out, ours); });
}

#define MX_INSTANTIATE(T)                                                                      \
  template int64_t filter_points_size<T>(const WinogradProblem&);                              \
  template void make_filter_points(const WinogradProblem&, const T*, const FilterLayout&, T*); \
  template class MinimalConvolution<T>;
MX_INSTANTIATE(float)
MX_INSTANTIATE(double)
#undef MX_INSTANTIATE

}  // namespace mx::cpu
