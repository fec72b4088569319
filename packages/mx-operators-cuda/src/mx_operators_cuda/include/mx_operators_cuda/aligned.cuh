// SPDX-License-Identifier: Apache-2.0
//
// Regions whose bins are means of bilinear samples (ROIAlign, rotated regions too), and position-sensitive regions whose
// bins are means of pixels.  A thread per result; a gradient is gathered by a thread per element of data.
//
// Sources: He et al., Mask R-CNN, ICCV 2017; Dai et al., R-FCN, NIPS 2016.
#pragma once

#include "mx_operators_cuda/regions.cuh"

namespace mx {
namespace aligned {

using regions::Grid;

struct Rule {
  double scale;
  int64 samples, sensitive, centered, rotated;
};

// Two neighbours along one axis; neither where the position is outside by more than 1.
struct Pair {
  int64 low, high;
  double share;
  bool inside;

  __device__ Pair(double at, int64 extent) : low(0), high(0), share(0), inside(at >= -1 && at <= double(extent)) {
    if (!inside) return;
    if (at < 0) at = 0;
    low = static_cast<int64>(at);
    if (low >= extent - 1) {
      low = extent - 1;
      at = double(low);
    }
    high = low + 1 < extent ? low + 1 : extent - 1;
    share = at - double(low);
  }
  __device__ double weight(int64 k) const {
    return inside ? (k == low ? 1 - share : 0) + (k == high ? share : 0) : 0;
  }
};

// Bins along one side of a region.
struct Side {
  double first, size;
  int64 samples;

  __device__ Side(double begin, double extent, int64 bins, int64 wanted) : first(begin), size(extent / double(bins)) {
    const double found = ::ceil(size);
    samples = wanted > 0 ? wanted : found > 0 ? static_cast<int64>(found) : 0;
  }
  __device__ double at(int64 bin, int64 s) const {
    return first + (double(bin) + (double(s) + 0.5) / double(samples > 0 ? samples : 1)) * size;
  }
};

template <class R> struct Region {
  const R* roi;
  const Rule& rule;
  const Grid& g;

  __device__ double value(int i) const { return convert<double>(roi[i]); }
  __device__ bool exists() const { return value(0) > -1; }
  __device__ int64 image() const {
    const double given = value(0);
    return given < double(g.images) ? static_cast<int64>(given) : g.images - 1;
  }
  // Side 0 is down, side 1 across.
  __device__ Side side(int which) const {
    const int64 bins = which == 0 ? g.rows : g.columns;
    if (rule.rotated != 0) {
      const double extent = ::fmax(value(which == 0 ? 4 : 3) * rule.scale, 1.0);
      return {-extent / 2, extent, bins, rule.samples};
    }
    const double offset = rule.centered != 0 ? 0.5 : 0, begin = value(which == 0 ? 2 : 1) * rule.scale - offset;
    const double extent = value(which == 0 ? 4 : 3) * rule.scale - offset - begin;
    return {begin, rule.centered != 0 ? extent : ::fmax(extent, 1.0), bins, rule.samples};
  }
};

struct Turn {
  double cos, sin, x, y;

  template <class R> __device__ explicit Turn(const Region<R>& region) {
    const double angle = region.value(5) * 3.141592653589793 / 180;
    cos = ::cos(angle);
    sin = ::sin(angle);
    x = region.value(1) * region.rule.scale;
    y = region.value(2) * region.rule.scale;
  }
  __device__ double down(double dy, double dx) const { return dy * cos - dx * sin + y; }
  __device__ double across(double dy, double dx) const { return dy * sin + dx * cos + x; }
};

__device__ inline int64 width_of(const Rule& rule) { return rule.rotated != 0 ? 6 : 5; }
// The channel of data that a bin reads.
__device__ inline int64 channel_of(const Rule& rule, const Grid& g, int64 channel, int64 row, int64 column) {
  return rule.sensitive != 0 ? (channel * g.rows + row) * g.columns + column : channel;
}

template <class V, class T, class R>
__device__ inline void forward(const T* x, const R* rois, T* y, int request, const Rule& rule, const Grid& g) {
  const int64 channels = rule.sensitive != 0 ? g.channels / (g.rows * g.columns) : g.channels;
  const int64 n = g.rois * channels * g.rows * g.columns, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 column = i % g.columns, row = i / g.columns % g.rows, channel = i / g.columns / g.rows % channels;
    const Region<R> region{rois + i / g.columns / g.rows / channels * width_of(rule), rule, g};
    V sum = 0;
    if (region.exists()) {
      const int64 plane = region.image() * g.channels + channel_of(rule, g, channel, row, column);
      const T* image = x + plane * g.height * g.width;
      const Side down = region.side(0), across = region.side(1);
      for (int64 s = 0; s < down.samples; ++s) {
        for (int64 t = 0; t < across.samples; ++t) {
          double at_y = down.at(row, s), at_x = across.at(column, t);
          if (rule.rotated != 0) {
            const Turn turn(region);
            const double dy = at_y, dx = at_x;
            at_y = turn.down(dy, dx);
            at_x = turn.across(dy, dx);
          }
          const Pair v(at_y, g.height), h(at_x, g.width);
          if (!v.inside || !h.inside) continue;
          const T *top = image + v.low * g.width, *bottom = image + v.high * g.width;
          const V a = convert<V>(top[h.low]) * V(1 - h.share) + convert<V>(top[h.high]) * V(h.share);
          const V b = convert<V>(bottom[h.low]) * V(1 - h.share) + convert<V>(bottom[h.high]) * V(h.share);
          sum += a * V(1 - v.share) + b * V(v.share);
        }
      }
      const int64 count = down.samples * across.samples;
      sum /= V(count > 0 ? count : 1);
    }
    store(y, i, request, sum);
  }
}

template <class V, class T, class R>
__device__ inline void backward(const T* head, const R* rois, T* grad, int request, const Rule& rule, const Grid& g) {
  const int64 bins = g.rows * g.columns, channels = rule.sensitive != 0 ? g.channels / bins : g.channels;
  const int64 n = g.images * g.channels * g.height * g.width, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 x = i % g.width, y = i / g.width % g.height, plane = i / g.width / g.height;
    const int64 image = plane / g.channels, channel = plane % g.channels;
    V sum = 0;
    for (int64 r = 0; r < g.rois; ++r) {
      const Region<R> region{rois + r * width_of(rule), rule, g};
      if (!region.exists() || region.image() != image) continue;
      const Side down = region.side(0), across = region.side(1);
      const int64 count = down.samples * across.samples;
      for (int64 bin = 0; bin < bins; ++bin) {
        if (rule.sensitive != 0 && channel % bins != bin) continue;
        const int64 row = bin / g.columns, column = bin % g.columns;
        double weight = 0;
        if (rule.rotated != 0) {
          const Turn turn(region);
          for (int64 s = 0; s < count; ++s) {
            const double dy = down.at(row, s / across.samples), dx = across.at(column, s % across.samples);
            const Pair v(turn.down(dy, dx), g.height), h(turn.across(dy, dx), g.width);
            weight += v.weight(y) * h.weight(x);
          }
        } else {  // the weights of rows and of columns are independent
          double by_row = 0, by_column = 0;
          for (int64 s = 0; s < down.samples; ++s) by_row += Pair(down.at(row, s), g.height).weight(y);
          if (by_row == 0) continue;
          for (int64 s = 0; s < across.samples; ++s) by_column += Pair(across.at(column, s), g.width).weight(x);
          weight = by_row * by_column;
        }
        const int64 own = rule.sensitive != 0 ? channel / bins : channel;
        if (weight != 0) sum += V(weight / double(count)) * convert<V>(head[(r * channels + own) * bins + bin]);
      }
    }
    store(grad, i, request, sum);
  }
}

// ---- means of the pixels of a bin, each from channels of its own ----

struct Window {
  int64 begin, end;

  __device__ Window(double first, double extent, int64 bin, int64 bins, int64 limit) {
    const double size = extent / double(bins);
    begin = inside(::floor(first + double(bin) * size), limit);
    end = inside(::ceil(first + double(bin + 1) * size), limit);
  }
  __device__ static int64 inside(double at, int64 limit) {
    return at < 0 ? 0 : at > double(limit) ? limit : static_cast<int64>(at);
  }
  __device__ int64 size() const { return end > begin ? end - begin : 0; }
};

template <class R> struct Bins {
  const R* roi;
  double scale;
  const Grid& g;

  __device__ double low(int i) const { return regions::half_away(convert<double>(roi[i])) * scale; }
  __device__ double high(int i) const { return (regions::half_away(convert<double>(roi[i])) + 1) * scale; }
  __device__ Window down(int64 row) const {
    return {low(2), ::fmax(high(4) - low(2), 0.1), row, g.rows, g.height};
  }
  __device__ Window across(int64 column) const {
    return {low(1), ::fmax(high(3) - low(1), 0.1), column, g.columns, g.width};
  }
  __device__ int64 image() const { return regions::Region<R>{roi, scale}.image(g.images); }
};
__device__ inline int64 group_of(const Grid& g, int64 groups, int64 row, int64 column) {
  return row * groups / g.rows * groups + column * groups / g.columns;
}

template <class V, class T, class R>
__device__ inline void means(const T* x, const R* rois, T* y, int request, double scale, int64 groups, const Grid& g) {
  const int64 channels = g.channels / (groups * groups), n = g.rois * channels * g.rows * g.columns;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 column = i % g.columns, row = i / g.columns % g.rows, channel = i / g.columns / g.rows % channels;
    const Bins<R> bins{rois + i / g.columns / g.rows / channels * 5, scale, g};
    const Window down = bins.down(row), across = bins.across(column);
    const int64 from = channel * groups * groups + group_of(g, groups, row, column);
    const T* image = x + (bins.image() * g.channels + from) * g.height * g.width;
    V sum = 0;
    for (int64 a = down.begin; a < down.end; ++a) {
      for (int64 b = across.begin; b < across.end; ++b) sum += convert<V>(image[a * g.width + b]);
    }
    const int64 count = down.size() * across.size();
    store(y, i, request, count > 0 ? sum / V(count) : V(0));
  }
}

template <class V, class T, class R>
__device__ inline void backward_means(const T* head, const R* rois, T* grad, int request, double scale, int64 groups,
                                      const Grid& g) {
  const int64 channels = g.channels / (groups * groups), n = g.images * g.channels * g.height * g.width;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 x = i % g.width, y = i / g.width % g.height, plane = i / g.width / g.height;
    const int64 channel = plane % g.channels;
    V sum = 0;
    for (int64 r = 0; r < g.rois; ++r) {
      const Bins<R> bins{rois + r * 5, scale, g};
      if (bins.image() != plane / g.channels) continue;
      for (int64 row = 0; row < g.rows; ++row) {
        const Window down = bins.down(row);
        if (y < down.begin || y >= down.end) continue;
        for (int64 column = 0; column < g.columns; ++column) {
          const Window across = bins.across(column);
          if (x < across.begin || x >= across.end) continue;
          if (group_of(g, groups, row, column) != channel % (groups * groups)) continue;
          const int64 place = ((r * channels + channel / (groups * groups)) * g.rows + row) * g.columns + column;
          sum += convert<V>(head[place]) / V(down.size() * across.size());
        }
      }
    }
    store(grad, i, request, sum);
  }
}

}  // namespace aligned
}  // namespace mx
