// SPDX-License-Identifier: Apache-2.0
#include "convolve.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "multiply.h"
#include "parallel.h"

namespace mx::winograd {
namespace {

constexpr int64_t kGroupApart = 24;              // tiles whose points stay in a core's own cache
constexpr int64_t kMostFiltersApart = 3 << 20;   // bytes of transformed filters that do so, too
constexpr int64_t kGroupBytes = 8 << 20;         // of points that stay in the cache that cores share
constexpr int64_t kGroupOfSums = 48;             // tiles whose products are added to sums at once, likewise
constexpr int64_t kMostDepth = 128;              // tiles of a filter gradient's product: a panel in the first cache

int64_t ceil_div(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

// Pixels beyond the border are read from here.
const float* zeros(int64_t channels) {
  alignas(64) static const float few[1024] = {};
  if (channels <= 1024) return few;
  static thread_local std::vector<float> many;
  if (many.size() < static_cast<size_t>(channels)) many.assign(static_cast<size_t>(channels), 0.f);
  return many.data();
}

// The matrices of a group: one row per tile, one matrix per point. Odd numbers of cache lines between rows and
// between points keep them from falling into the same sets of a cache.
struct Points {
  int64_t row, step;

  Points(int64_t tiles, int64_t channels)
      : row(((channels / kLanes) | 1) * kLanes), step(((tiles * row / kLanes) | 1) * kLanes) {}
  int64_t size() const { return kPoints * step; }
};

// Where transformed filters lie: a matrix (channels, width) per point and panel.
struct FilterPoints {
  int64_t channels, filters, step;

  explicit FilterPoints(const Problem& p)
      : channels(p.channels), filters(p.filters), step(((channels * filters / kLanes) | 1) * kLanes) {}
  int64_t width(int64_t panel) const { return std::min(kPanel, filters - panel * kPanel); }
  int64_t offset(int64_t point, int64_t panel) const { return point * step + panel * kPanel * channels; }
};

struct Tile {
  int64_t image, y, x;  // of its first result
};

Tile tile(const Problem& p, int64_t index) {
  const int64_t across = p.tiles_across(), down = p.tiles_down();
  return {index / (across * down), index / across % down * kTile, index % across * kTile};
}

// Calls body(i, pixel) for the pixels of a square whose corner is at (y, x); pixel is -1 outside of the image,
// else the offset of its channels.
template <class Body>
void for_pixels(int64_t image, int64_t y, int64_t x, int64_t side, int64_t height, int64_t width, int64_t channels,
                const Body& body) {
  for (int64_t i = 0; i < side; ++i) {
    for (int64_t j = 0; j < side; ++j) {
      const int64_t r = y + i, c = x + j;
      const bool inside = r >= 0 && r < height && c >= 0 && c < width;
      body(i * side + j, inside ? ((image * height + r) * width + c) * channels : -1);
    }
  }
}

void data_points(const Problem& p, const float* data, int64_t index, float* out, int64_t step) {
  const Tile t = tile(p, index);
  const float* const outside = zeros(p.channels);
  const float* pixels[kPoints];
  for_pixels(t.image, t.y - p.pad_top, t.x - p.pad_left, kPatch, p.height, p.width, p.channels,
             [&](int64_t i, int64_t pixel) { pixels[i] = pixel < 0 ? outside : data + pixel; });
  transform_data(pixels, p.channels, out, step);
}

void gradient_points(const Problem& p, const float* out_grad, int64_t index, float* out, int64_t step) {
  const Tile t = tile(p, index);
  const float* const outside = zeros(p.filters);
  const float* pixels[kTile * kTile];
  for_pixels(t.image, t.y, t.x, kTile, p.out_height, p.out_width, p.filters,
             [&](int64_t i, int64_t pixel) { pixels[i] = pixel < 0 ? outside : out_grad + pixel; });
  transform_gradient(pixels, p.filters, out, step);
}

// Costs in products of one core: per float of a tile's points (written and read), per float of transformed filters
// that is made, per one that is read from memory. Measured on a Zen 5 core; only their order of magnitude counts.
constexpr double kPointCost = 15, kFilterMade = 40, kFilterRead = 20, kProductCost = 1.25;

double cost(const Problem& p, double per_filter) {
  const double both = static_cast<double>(p.channels * p.filters), tiles = static_cast<double>(p.tiles());
  const double moved = static_cast<double>(p.channels + p.filters);
  return static_cast<double>(kPoints) * (tiles * (kProductCost * both + kPointCost * moved) + per_filter * both);
}

double direct_cost(const Problem& p) {
  return static_cast<double>(p.images * p.out_height * p.out_width) * static_cast<double>(p.channels * p.filters) *
         static_cast<double>(kFilter * kFilter);
}

}  // namespace

bool possible(const Problem& p) {
  return processor_has_avx512() && p.channels % kLanes == 0 && p.filters % kLanes == 0 && p.channels > 0 &&
         p.filters > 0 && p.tiles() > 0;
}

bool pays(const Problem& p, bool ready) {
  return cost(p, ready ? kFilterRead : kFilterRead + kFilterMade) < direct_cost(p);
}

bool gradient_pays(const Problem& p) { return cost(p, kFilterRead + kFilterMade) < direct_cost(p); }

int64_t filter_points_size(const Problem& p) { return kPoints * FilterPoints(p).step; }

void make_filter_points(const Problem& p, const float* filters, const FilterLayout& layout, float* points) {
  const FilterPoints place(p);
  parallel_for(p.filters / kLanes * p.channels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / p.channels * kLanes, channel = i % p.channels, panel = first / kPanel;
      float* out = points + place.offset(0, panel) + channel * place.width(panel) + first % kPanel;
      transform_filters(filters, layout, channel, first, out, place.step);
    }
  });
}

Convolution::Convolution(const Problem& problem, int threads) : problem_(problem) {
  const int64_t tiles = problem.tiles();
  const int64_t floats = static_cast<int64_t>(sizeof(float));
  apart_ = filter_points_size(problem) * floats <= kMostFiltersApart && tiles >= kGroupApart * threads;
  if (apart_) {
    const int64_t groups = ceil_div(ceil_div(tiles, kGroupApart), threads) * threads;
    group_ = ceil_div(tiles, groups);
  } else {
    const int64_t most = kGroupBytes / (kPoints * (problem.channels + problem.filters) * floats);
    group_ = ceil_div(tiles, ceil_div(tiles, std::max(most, kGroupApart)));
  }
  copies_ = apart_ ? threads : 1;
}

struct Convolution::Space {
  Points data, result;
  float *data_points, *result_points;
};

Convolution::Space Convolution::space(float* workspace, int thread) const {
  const Points data(group_, problem_.channels), result(group_, problem_.filters);
  float* begin = workspace + thread * (data.size() + result.size());
  return {data, result, begin, begin + data.size()};
}

int64_t Convolution::workspace_size() const {
  return copies_ * (Points(group_, problem_.channels).size() + Points(group_, problem_.filters).size());
}

void Convolution::transform_tiles(const float* data, int64_t first, int64_t begin, int64_t end,
                                  const Space& space) const {
  for (int64_t t = begin; t < end; ++t)
    data_points(problem_, data, first + t, space.data_points + t * space.data.row, space.data.step);
}

// Tasks [begin, end): a panel of one point each.
void Convolution::multiply_points(const float* filters, int64_t tiles, int64_t begin, int64_t end,
                                  const Space& space) const {
  const FilterPoints place(problem_);
  const int64_t panels = ceil_div(problem_.filters, kPanel);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t point = task / panels, panel = task % panels, width = place.width(panel);
    multiply({space.data_points + point * space.data.step, space.data.row, 1}, filters + place.offset(point, panel),
             width, tiles, problem_.channels, width, space.result_points + point * space.result.step + panel * kPanel,
             space.result.row, false);
  }
}

void Convolution::deliver_tiles(int64_t first, int64_t begin, int64_t end, const Epilogue& epilogue, float* out,
                                const Space& space) const {
  for (int64_t i = begin; i < end; ++i) {
    const Tile t = tile(problem_, first + i);
    int64_t pixels[kTile * kTile];
    for_pixels(t.image, t.y, t.x, kTile, problem_.out_height, problem_.out_width, problem_.filters,
               [&](int64_t k, int64_t pixel) { pixels[k] = pixel; });
    transform_result(space.result_points + i * space.result.row, space.result.step, problem_.filters, epilogue, out,
                     pixels);
  }
}

void Convolution::run(const float* data, const float* filters, const Epilogue& epilogue, float* out,
                      float* workspace) const {
  const int64_t tiles = problem_.tiles(), tasks = kPoints * ceil_div(problem_.filters, kPanel);
  if (apart_) {
    const auto share = [&](int64_t begin, int64_t end, int thread) {
      const Space mine = space(workspace, thread);
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * group_, n = std::min(group_, tiles - first);
        transform_tiles(data, first, 0, n, mine);
        multiply_points(filters, n, 0, tasks, mine);
        deliver_tiles(first, 0, n, epilogue, out, mine);
      }
    };
    parallel_shares(ceil_div(tiles, group_), share, copies_);
    return;
  }
  const Space ours = space(workspace, 0);
  for (int64_t first = 0; first < tiles; first += group_) {
    const int64_t n = std::min(group_, tiles - first);
    parallel_for(n, [&](int64_t begin, int64_t end) { transform_tiles(data, first, begin, end, ours); });
    parallel_for(tasks, [&](int64_t begin, int64_t end) { multiply_points(filters, n, begin, end, ours); });
    parallel_for(n, [&](int64_t begin, int64_t end) { deliver_tiles(first, begin, end, epilogue, out, ours); });
  }
}

FilterGradient::FilterGradient(const Problem& problem, int threads) : problem_(problem) {
  const int64_t floats = static_cast<int64_t>(sizeof(float)), tiles = problem.tiles();
  apart_ = filter_points_size(problem) * floats <= kMostFiltersApart && tiles >= kGroupApart * threads;
  if (apart_) {
    group_ = ceil_div(tiles, ceil_div(ceil_div(tiles, kGroupOfSums), threads) * threads);
  } else {
    const int64_t bytes = std::max(kGroupBytes, kPoints / 2 * problem.channels * problem.filters * floats);
    const int64_t most = bytes / (kPoints * (problem.channels + problem.filters) * floats);
    group_ = ceil_div(tiles, ceil_div(tiles, std::clamp(most, kGroupApart, kMostDepth)));
  }
  copies_ = apart_ ? threads : 1;
}

struct FilterGradient::Space {
  Points data, out_grad, sum;
  float *data_points, *gradient_points, *sums;

  Space(const Problem& p, int64_t group)
      : data(group, p.channels), out_grad(group, p.filters), sum(p.filters, p.channels) {}
  int64_t size() const { return data.size() + out_grad.size() + sum.size(); }
};

FilterGradient::Space FilterGradient::space(float* workspace, int copy) const {
  Space found(problem_, group_);
  found.data_points = workspace + copy * found.size();
  found.gradient_points = found.data_points + found.data.size();
  found.sums = found.gradient_points + found.out_grad.size();
  return found;
}

int64_t FilterGradient::workspace_size() const { return copies_ * Space(problem_, group_).size(); }

void FilterGradient::transform_tiles(const float* data, const float* out_grad, int64_t first, int64_t begin,
                                     int64_t end, const Space& s) const {
  for (int64_t t = begin; t < end; ++t) {
    data_points(problem_, data, first + t, s.data_points + t * s.data.row, s.data.step);
    gradient_points(problem_, out_grad, first + t, s.gradient_points + t * s.out_grad.row, s.out_grad.step);
  }
}

// Tasks [begin, end): a panel of one point each.
void FilterGradient::multiply_points(int64_t tiles, bool add, int64_t begin, int64_t end, const Space& s) const {
  const int64_t panels = ceil_div(problem_.channels, kPanel);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t point = task / panels, panel = task % panels * kPanel;
    multiply({s.gradient_points + point * s.out_grad.step, 1, s.out_grad.row},
             s.data_points + point * s.data.step + panel, s.data.row, problem_.filters, tiles,
             std::min(kPanel, problem_.channels - panel), s.sums + point * s.sum.step + panel, s.sum.row, add);
  }
}

// Adds the sums of all copies up and transforms them.
void FilterGradient::deliver(float* gradient, const FilterLayout& layout, float* workspace, int copies) const {
  parallel_for(problem_.filters, [&](int64_t begin, int64_t end) {
    const Space total = space(workspace, 0);
    for (int64_t filter = begin; filter < end; ++filter) {
      float* sums = total.sums + filter * total.sum.row;
      for (int copy = 1; copy < copies; ++copy) {
        const float* more = space(workspace, copy).sums + filter * total.sum.row;
        for (int64_t point = 0; point < kPoints; ++point) {
          const int64_t offset = point * total.sum.step;
          for (int64_t c = 0; c < problem_.channels; ++c) sums[offset + c] += more[offset + c];
        }
      }
      for (int64_t channel = 0; channel < problem_.channels; channel += kLanes)
        transform_filter_gradient(sums + channel, total.sum.step,
                                  gradient + filter * layout.output + channel * layout.input, layout);
    }
  });
}

void FilterGradient::run(const float* data, const float* out_grad, float* gradient, const FilterLayout& layout,
                         float* workspace) const {
  const int64_t tiles = problem_.tiles(), tasks = kPoints * ceil_div(problem_.channels, kPanel);
  if (apart_) {
    std::atomic<int> copies{0};
    const auto share = [&](int64_t begin, int64_t end, int thread) {
      const Space mine = space(workspace, thread);  // that many, counted from 0, have a share
      copies.fetch_add(1);
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * group_, n = std::min(group_, tiles - first);
        transform_tiles(data, out_grad, first, 0, n, mine);
        multiply_points(n, g > begin, 0, tasks, mine);
      }
    };
    parallel_shares(ceil_div(tiles, group_), share, copies_);
    deliver(gradient, layout, workspace, copies);
    return;
  }
  const Space ours = space(workspace, 0);
  for (int64_t first = 0; first < tiles; first += group_) {
    const int64_t n = std::min(group_, tiles - first);
    parallel_for(n, [&](int64_t begin, int64_t end) { transform_tiles(data, out_grad, first, begin, end, ours); });
    parallel_for(tasks, [&](int64_t begin, int64_t end) { multiply_points(n, first > 0, begin, end, ours); });
  }
  deliver(gradient, layout, workspace, 1);
}

}  // namespace mx::winograd
