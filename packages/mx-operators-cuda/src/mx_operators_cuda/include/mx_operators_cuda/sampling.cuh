// SPDX-License-Identifier: Apache-2.0
//
// Images read between their pixels: sampling points, bilinear samples of them, and images of other extents.  Positions
// are double.  A gradient of data is a sum over the samples that read a pixel: their pixels are sorted, and a thread per
// element of data adds up its samples in their order.
//
// Source: Jaderberg et al., Spatial Transformer Networks, NIPS 2015.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace sampling {

// Data (images, channels, height, width), and the points (rows, columns) of every image.
struct Images {
  int64 images, channels, height, width, rows, columns;
};

__device__ inline double spaced(int64 i, int64 n) { return n > 1 ? -1 + double(i) * (2 / double(n - 1)) : -1; }

// ---- where the points are ----

// The matrix of the image, times (x, y, 1).
template <class T> struct Affine {
  const T* matrices;

  __device__ double at(const Images& g, int64 n, int64 r, int64 c, int axis) const {
    const T* m = matrices + n * 6 + axis * 3;
    const double x = spaced(c, g.columns), y = spaced(r, g.rows);
    return convert<double>(m[0]) * x + convert<double>(m[1]) * y + convert<double>(m[2]);
  }
};
template <class T> struct Grid {
  const T* points;

  __device__ double at(const Images& g, int64 n, int64 r, int64 c, int axis) const {
    return convert<double>(points[((n * 2 + axis) * g.rows + r) * g.columns + c]);
  }
};

template <class T>
__device__ inline void affine(const T* matrices, T* y, int request, const Images& g) {
  const int64 n = g.images * 2 * g.rows * g.columns, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 c = i % g.columns, r = i / g.columns % g.rows, axis = i / g.columns / g.rows % 2;
    store(y, i, request, Affine<T>{matrices}.at(g, i / g.columns / g.rows / 2, r, c, static_cast<int>(axis)));
  }
}
// The gradient of the matrices: a thread per element.
template <class T>
__device__ inline void backward_affine(const T* head, T* grad, int request, const Images& g) {
  const int64 n = g.images * 6, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const T* row = head + i / 3 * g.rows * g.columns;
    const int64 k = i % 3;
    double sum = 0;
    for (int64 r = 0; r < g.rows; ++r) {
      for (int64 c = 0; c < g.columns; ++c) {
        const double basis = k == 0 ? spaced(c, g.columns) : k == 1 ? spaced(r, g.rows) : 1;
        sum += basis * convert<double>(row[r * g.columns + c]);
      }
    }
    store(grad, i, request, sum);
  }
}
// Displacements in pixels as points; the gradient only scales.
template <class T>
__device__ inline void warp(const T* x, T* y, int request, int64 gradient, const Images& g) {
  const int64 n = g.images * 2 * g.rows * g.columns, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 c = i % g.columns, r = i / g.columns % g.rows, axis = i / g.columns / g.rows % 2;
    const double half = double((axis == 0 ? g.columns : g.rows) - 1) / 2, value = convert<double>(x[i]);
    store(y, i, request, gradient != 0 ? value / half : (value + double(axis == 0 ? c : r)) / half - 1);
  }
}

// ---- bilinear samples ----

// The four pixels around a point; pixels outside of the image count as 0.
struct Around {
  double x, y, left, top;
  bool known;

  __device__ Around(const Images& g, double u, double v)
      : x((u + 1) * double(g.width - 1) / 2), y((v + 1) * double(g.height - 1) / 2), left(::floor(x)), top(::floor(y)),
        known(x > -2 && y > -2 && x < double(g.width) + 1 && y < double(g.height) + 1) {}
  // Corner k of 4; -1 where there is no pixel.
  __device__ int64 pixel(const Images& g, int k) const {
    if (!known) return -1;
    const int64 r = static_cast<int64>(top) + k / 2, c = static_cast<int64>(left) + k % 2;
    return r >= 0 && r < g.height && c >= 0 && c < g.width ? r * g.width + c : -1;
  }
  __device__ double across(int k) const { return k % 2 ? x - left : 1 - (x - left); }
  __device__ double down(int k) const { return k / 2 ? y - top : 1 - (y - top); }
};

template <class Points>
__device__ inline Around around(const Points& points, const Images& g, int64 n, int64 place) {
  const int64 r = place / g.columns, c = place % g.columns;
  return {g, points.at(g, n, r, c, 0), points.at(g, n, r, c, 1)};
}

template <class V, class T, class Points>
__device__ inline void sampled(const T* x, const T* points, T* y, int request, const Images& g) {
  const int64 places = g.rows * g.columns, n = g.images * g.channels * places;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const T* image = x + i / places * g.height * g.width;
    const Around at = around(Points{points}, g, i / places / g.channels, i % places);
    V sum = 0;
    for (int k = 0; k < 4; ++k) {
      const int64 pixel = at.pixel(g, k);
      if (pixel >= 0) sum += static_cast<V>(at.down(k) * at.across(k)) * convert<V>(image[pixel]);
    }
    store(y, i, request, sum);
  }
}

// The gradient of the points: a thread per point.
template <class V, class T>
__device__ inline void backward_points(const T* head, const T* x, const T* points, T* grad, int request,
                                       const Images& g) {
  const int64 places = g.rows * g.columns, n = g.images * places, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 image = i / places, place = i % places;
    const Around at = around(Grid<T>{points}, g, image, place);
    V by_x = 0, by_y = 0;
    for (int k = 0; k < 4; ++k) {
      const int64 pixel = at.pixel(g, k);
      if (pixel < 0) continue;
      V value = 0;
      for (int64 c = 0; c < g.channels; ++c) {
        const int64 plane = image * g.channels + c;
        value += convert<V>(x[plane * g.height * g.width + pixel]) * convert<V>(head[plane * places + place]);
      }
      by_x += value * static_cast<V>(at.down(k) * (k % 2 ? 1 : -1));
      by_y += value * static_cast<V>(at.across(k) * (k / 2 ? 1 : -1));
    }
    store(grad, (image * 2) * places + place, request, by_x * static_cast<V>(double(g.width - 1) / 2));
    store(grad, (image * 2 + 1) * places + place, request, by_y * static_cast<V>(double(g.height - 1) / 2));
  }
}

// Of every corner of every point its pixel: what the gradient of data is sorted by.
template <class T> __device__ inline void pixels(const T* points, int32* y, const Images& g) {
  const int64 places = g.rows * g.columns, n = g.images * places * 4, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const Around at = around(Grid<T>{points}, g, i / 4 / places, i / 4 % places);
    y[i] = static_cast<int32>(at.pixel(g, static_cast<int>(i % 4)));
  }
}
template <class V, class T>
__device__ inline void backward_data(const T* head, const T* points, const int32* pixels, const int32* order, T* grad,
                                     int request, const Images& g) {
  const int64 size = g.height * g.width, places = g.rows * g.columns, corners = 4 * places;
  const int64 n = g.images * g.channels * size, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 image = i / size / g.channels, pixel = i % size;
    const int32 *of = pixels + image * corners, *sorted = order + image * corners;
    int64 low = 0, high = corners;
    while (low < high) {  // the first corner at this pixel
      const int64 middle = (low + high) / 2;
      if (of[sorted[middle]] < pixel) low = middle + 1;
      else high = middle;
    }
    V sum = 0;
    for (; low < corners && of[sorted[low]] == pixel; ++low) {
      const int64 corner = sorted[low];
      const Around at = around(Grid<T>{points}, g, image, corner / 4);
      const int k = static_cast<int>(corner % 4);
      sum += static_cast<V>(at.down(k) * at.across(k)) * convert<V>(head[i / size * places + corner / 4]);
    }
    store(grad, i, request, sum);
  }
}

// ---- images of other extents: every row is a mean of rows, every column one of columns ----

enum Method { kCorners = 0, kBorders = 1, kWindows = 2 };

// Which elements of `old` one of `fresh` reads, with what weights.
struct Mix {
  int64 first, last;
  double begin, end;  // weights of the two elements of an interpolation
  bool windows;

  __device__ Mix(int64 i, int64 old, int64 fresh, int method) : windows(method == kWindows) {
    if (windows) {
      first = i * old / fresh;
      last = ((i + 1) * old + fresh - 1) / fresh - 1;
      begin = end = 1 / double(last - first + 1);
      return;
    }
    double at = 0;
    if (method == kCorners || fresh == 1) at = double(i) * (double(old - 1) / double(fresh > 1 ? fresh - 1 : 1));
    else at = ::fmax((double(i) + 0.5) * double(old) / double(fresh) - 0.5, 0.0);
    first = static_cast<int64>(at);
    if (first > old - 1) first = old - 1;
    last = first + 1 < old ? first + 1 : old - 1;
    end = at - double(first);
    begin = 1 - end;
  }
  __device__ double weight(int64 k) const {
    if (k < first || k > last) return 0;
    if (windows) return begin;
    return (k == first ? begin : 0) + (k == last ? end : 0);
  }
};

template <class V, class T>
__device__ inline void resized(const T* x, T* y, int request, int64 method, const Images& g) {
  const int64 places = g.rows * g.columns, n = g.images * g.channels * places;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const T* image = x + i / places * g.height * g.width;
    const Mix down(i % places / g.columns, g.height, g.rows, static_cast<int>(method));
    const Mix across(i % g.columns, g.width, g.columns, static_cast<int>(method));
    V sum = 0;
    for (int64 r = down.first; r <= down.last; ++r) {
      V row = 0;
      for (int64 c = across.first; c <= across.last; ++c) {
        row += static_cast<V>(across.weight(c)) * convert<V>(image[r * g.width + c]);
      }
      sum += static_cast<V>(down.weight(r)) * row;
    }
    store(y, i, request, sum);
  }
}
// The results that may read element k: those from `begin` on, before `end`.
struct Readers {
  int64 begin, end;

  __device__ Readers(int64 k, int64 old, int64 fresh) {
    const double scale = double(fresh) / double(old), more = scale > 1 ? 2 * scale + 2 : 4;
    const double low = ::floor(double(k) * scale - more), high = ::ceil(double(k + 1) * scale + more);
    begin = low > 0 ? static_cast<int64>(low) : 0;
    end = high < double(fresh) ? static_cast<int64>(high) : fresh;
  }
};
template <class V, class T>
__device__ inline void backward_resized(const T* head, T* grad, int request, int64 method, const Images& g) {
  const int64 size = g.height * g.width, n = g.images * g.channels * size;
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const T* image = head + i / size * g.rows * g.columns;
    const int64 row = i % size / g.width, column = i % g.width;
    const Readers down(row, g.height, g.rows), across(column, g.width, g.columns);
    V sum = 0;
    for (int64 r = down.begin; r < down.end; ++r) {
      const double weight = Mix(r, g.height, g.rows, static_cast<int>(method)).weight(row);
      if (weight == 0) continue;
      V part = 0;
      for (int64 c = across.begin; c < across.end; ++c) {
        const double share = Mix(c, g.width, g.columns, static_cast<int>(method)).weight(column);
        if (share != 0) part += static_cast<V>(share) * convert<V>(image[r * g.columns + c]);
      }
      sum += static_cast<V>(weight) * part;
    }
    store(grad, i, request, sum);
  }
}

}  // namespace sampling
}  // namespace mx
