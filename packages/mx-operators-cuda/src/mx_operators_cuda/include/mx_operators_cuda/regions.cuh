// SPDX-License-Identifier: Apache-2.0
//
// Regions of interest (image, x1, y1, x2, y2): maxima over a grid of windows. A thread per result; the gradient
// is gathered by a thread per element of data, region by region and window by window.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace regions {

struct Grid {
  int64 images, channels, height, width, rois, rows, columns;
};

__device__ inline double half_away(double x) { return x < 0 ? -::floor(-x + 0.5) : ::floor(x + 0.5); }

// The windows of a region along one axis; both ends belong to it.
struct Axis {
  double first, size;
  int64 extent;

  __device__ Axis(double low, double high, int64 windows, int64 limit)
      : first(low), size((high - low + 1 > 1 ? high - low + 1 : 1) / double(windows)), extent(limit) {}
  __device__ int64 inside(double at) const {
    return at < 0 ? 0 : at > double(extent) ? extent : static_cast<int64>(at);
  }
  __device__ int64 begin(int64 i) const { return inside(::floor(double(i) * size) + first); }
  __device__ int64 end(int64 i) const { return inside(::ceil(double(i + 1) * size) + first); }
};

template <class R> struct Region {
  const R* roi;
  double scale;

  __device__ double at(int i) const { return half_away(convert<double>(roi[i]) * scale); }
  // A negative image marks padding and reads image 0; one that is not there is the last one.
  __device__ int64 image(int64 images) const {
    const double given = convert<double>(roi[0]);
    return !(given > 0) ? 0 : given < double(images) ? static_cast<int64>(given) : images - 1;
  }
  __device__ Axis across(const Grid& g) const { return {at(1), at(3), g.columns, g.width}; }
  __device__ Axis down(const Grid& g) const { return {at(2), at(4), g.rows, g.height}; }
};

template <class V, class T, class R>
__device__ inline void roi_pooling(const T* x, const R* rois, T* y, int request, int32* places, int place_request,
                                   double scale, const Grid& g) {
  const int64 n = g.rois * g.channels * g.rows * g.columns, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 column = i % g.columns, row = i / g.columns % g.rows, channel = i / g.columns / g.rows % g.channels;
    const Region<R> region{rois + i / g.columns / g.rows / g.channels * 5, scale};
    const Axis across = region.across(g), down = region.down(g);
    const T* image = x + (region.image(g.images) * g.channels + channel) * g.height * g.width;
    V best = 0;
    int64 place = -1;
    for (int64 a = down.begin(row); a < down.end(row); ++a) {
      for (int64 b = across.begin(column); b < across.end(column); ++b) {
        const V value = convert<V>(image[a * g.width + b]);
        if (place < 0 || value > best || (value != value && best == best)) {
          best = value;
          place = a * g.width + b;
        }
      }
    }
    store(y, i, request, best);
    store(places, i, place_request, static_cast<int32>(place));
  }
}

template <class V, class T, class R>
__device__ inline void backward_roi_pooling(const T* head, const R* rois, const int32* places, T* grad, int request,
                                            double scale, const Grid& g) {
  const int64 n = g.images * g.channels * g.height * g.width, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 place = i % (g.height * g.width), channel = i / g.height / g.width % g.channels;
    const int64 image = i / g.height / g.width / g.channels;
    V sum = 0;
    for (int64 r = 0; r < g.rois; ++r) {
      if (Region<R>{rois + r * 5, scale}.image(g.images) != image) continue;
      const int64 first = (r * g.channels + channel) * g.rows * g.columns;
      for (int64 k = 0; k < g.rows * g.columns; ++k) {
        if (places[first + k] == place) sum += convert<V>(head[first + k]);
      }
    }
    store(grad, i, request, sum);
  }
}

}  // namespace regions
}  // namespace mx
