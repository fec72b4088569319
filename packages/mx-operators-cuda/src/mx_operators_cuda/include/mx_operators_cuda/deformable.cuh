// SPDX-License-Identifier: Apache-2.0
//
// Deformable convolutions, whose windows are read at moved places, and position-sensitive regions with moved bins.  Bent
// windows become columns for matrix products; gradients are gathered, by a thread per element, from the corners of
// samples, which are sorted by the pixel that they read: sums have a fixed order.
//
// Sources: Dai et al., Deformable Convolutional Networks, ICCV 2017; Zhu et al., Deformable ConvNets v2, CVPR 2019.
#pragma once

#include "mx_operators_cuda/regions.cuh"
#include "mx_operators_cuda/sort.cuh"

namespace mx {
namespace deformable {

// `groups` share offsets; with a mask, samples up to one pixel outside fade out.
struct Windows {
  int64 images, channels, height, width, rows, columns, kernel_y, kernel_x, stride_y, stride_x, dilate_y, dilate_x,
      pad_y, pad_x, groups, masked;

  __device__ int64 taps() const { return kernel_y * kernel_x; }
  __device__ int64 windows() const { return rows * columns; }
  __device__ int64 samples() const { return images * groups * taps() * windows(); }
  __device__ int64 own() const { return channels / groups; }
};

// A sample, by its number: images, groups, taps, windows.
struct Sample {
  int64 image, group, tap, window;

  __device__ Sample(int64 i, const Windows& w)
      : image(i / w.windows() / w.taps() / w.groups), group(i / w.windows() / w.taps() % w.groups),
        tap(i / w.windows() % w.taps()), window(i % w.windows()) {}
  // Where the column of a channel of the group has it.
  __device__ int64 column(int64 channel, const Windows& w) const {
    const int64 row = (group * w.own() + channel) * w.taps() + tap;
    return (row * w.images + image) * w.windows() + window;
  }
  __device__ int64 offset(const Windows& w) const {
    return ((image * w.groups + group) * w.taps() + tap) * 2 * w.windows() + window;
  }
};

// Its place, in double: whole numbers do not take digits from offsets.
struct Place {
  double y, x;
  int64 top, left;
  bool inside;

  template <class T> __device__ Place(const Sample& s, const T* offsets, const Windows& w) {
    const T* own = offsets + s.offset(w);
    const int64 row = s.window / w.columns * w.stride_y + s.tap / w.kernel_x * w.dilate_y - w.pad_y;
    const int64 column = s.window % w.columns * w.stride_x + s.tap % w.kernel_x * w.dilate_x - w.pad_x;
    y = double(row) + convert<double>(own[0]);
    x = double(column) + convert<double>(own[w.windows()]);
    const bool begun = w.masked != 0 ? y > -1 && x > -1 : y >= 0 && x >= 0;
    inside = begun && y < double(w.height) && x < double(w.width);
    if (!inside) y = x = 0;
    top = static_cast<int64>(::floor(y));
    left = static_cast<int64>(::floor(x));
  }
  __device__ double share_y() const { return y - double(top); }
  __device__ double share_x() const { return x - double(left); }
};

// One of the four pixels around a place: its weight, and the weight's slopes.
struct Corner {
  int64 pixel;
  double weight, by_y, by_x;

  __device__ Corner(const Place& p, int k, const Windows& w) {
    int64 row = p.top + k / 2, column = p.left + k % 2;
    const bool on = row >= 0 && row < w.height && column >= 0 && column < w.width;
    const bool there = p.inside && (on || w.masked == 0);
    row = row < 0 ? 0 : row < w.height ? row : w.height - 1;  // without a mask the last row and column go on
    column = column < 0 ? 0 : column < w.width ? column : w.width - 1;
    pixel = row * w.width + column;
    const double along_y = k / 2 == 0 ? 1 - p.share_y() : p.share_y(), along_x = k % 2 == 0 ? 1 - p.share_x() : p.share_x();
    weight = there ? along_y * along_x : 0;
    by_y = !there ? 0 : k / 2 == 0 ? -along_x : along_x;
    by_x = !there ? 0 : k % 2 == 0 ? -along_y : along_y;
  }
};

template <class V, class T>
__device__ inline void columns(const T* x, const T* offsets, const T* mask, T* y, int, const Windows& w) {
  const int64 step = int64(gridDim.x) * blockDim.x, area = w.height * w.width;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < w.samples(); i += step) {
    const Sample s(i, w);
    const Place p(s, offsets, w);
    const Corner a(p, 0, w), b(p, 1, w), c(p, 2, w), d(p, 3, w);
    const V factor = mask == nullptr ? V(1) : convert<V>(mask[i]);
    for (int64 channel = 0; channel < w.own(); ++channel) {
      const T* image = x + (s.image * w.channels + s.group * w.own() + channel) * area;
      V sum = convert<V>(image[a.pixel]) * V(a.weight) + convert<V>(image[b.pixel]) * V(b.weight);
      sum += convert<V>(image[c.pixel]) * V(c.weight) + convert<V>(image[d.pixel]) * V(d.weight);
      y[s.column(channel, w)] = convert<T>(sum * factor);
    }
  }
}

// Gradients of offsets and mask: sums over the channels that share them.
template <class V, class T>
__device__ inline void by_place(const T* by_column, const T* x, const T* offsets, const T* mask, T* made, int request,
                                T* by_mask, int mask_request, const Windows& w) {
  const int64 step = int64(gridDim.x) * blockDim.x, area = w.height * w.width;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < w.samples(); i += step) {
    const Sample s(i, w);
    const Place p(s, offsets, w);
    V plain = 0, down = 0, right = 0;
    for (int k = 0; k < 4; ++k) {
      const Corner corner(p, k, w);
      V sum = 0;
      for (int64 channel = 0; channel < w.own(); ++channel) {
        const T* image = x + (s.image * w.channels + s.group * w.own() + channel) * area;
        sum += convert<V>(image[corner.pixel]) * convert<V>(by_column[s.column(channel, w)]);
      }
      plain += sum * V(corner.weight);
      down += sum * V(corner.by_y);
      right += sum * V(corner.by_x);
    }
    const V factor = mask == nullptr ? V(1) : convert<V>(mask[i]);
    store(made, s.offset(w), request, down * factor);
    store(made, s.offset(w) + w.windows(), request, right * factor);
    if (by_mask != nullptr) store(by_mask, i, mask_request, plain);
  }
}

// The pixel and the weight of each corner, by images, groups, taps, windows, corners.
template <class V, class T>
__device__ inline void corners(const T* offsets, const T* mask, int32* pixels, V* weights, const Windows& w) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < 4 * w.samples(); i += step) {
    const Place p(Sample(i / 4, w), offsets, w);
    const Corner corner(p, static_cast<int>(i % 4), w);
    pixels[i] = static_cast<int32>(corner.pixel);
    weights[i] = V(corner.weight) * (mask == nullptr ? V(1) : convert<V>(mask[i / 4]));
  }
}

// The gradient of data: a thread per pixel and channel, over the corners that lie there in their order.
template <class V, class T>
__device__ inline void by_data(const T* by_column, const int32* pixels, const V* weights, const int32* order, T* made,
                               int request, const Windows& w) {
  const int64 area = w.height * w.width, n = w.images * w.channels * area, each = 4 * w.taps() * w.windows();
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 channel = i / area % w.channels;
    const int64 first = (i / area / w.channels * w.groups + channel / w.own()) * each;
    const int32 pixel = static_cast<int32>(i % area), *sorted = order + first, *own = pixels + first;
    const auto at = [&](int64 k) { return own[sorted[k]]; };
    V sum = 0;
    for (int64 k = sort::rank<int32>(at, each, pixel, false, false); k < each && at(k) == pixel; ++k) {
      const int64 corner = first + sorted[k];
      const Sample s(corner / 4, w);
      sum += weights[corner] * convert<V>(by_column[s.column(channel % w.own(), w)]);
    }
    store(made, i, request, sum);
  }
}

// (outer, inner, size) as (inner, outer, size), plus a number of `bias` for each index of the outer axis.
template <class V, class T>
__device__ inline void swap(const T* x, const T* bias, T* y, int request, int64 outer, int64 inner, int64 size) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < outer * inner * size; i += step) {
    const int64 at = i % size, o = i / size % outer;
    const V value = convert<V>(x[(o * inner + i / size / outer) * size + at]);
    store(y, i, request, bias == nullptr ? value : value + convert<V>(bias[o]));
  }
}

// ---- position-sensitive regions ----

// `groups` of channels, `parts` offsets and `bins` per side; `classes` have offsets of their own, none without offsets.
struct Rule {
  double scale, deviation;
  int64 images, channels, height, width, rois, results, groups, bins, parts, samples, classes;

  __device__ int64 part(int64 bin) const { return bin * parts / bins; }
  __device__ int64 group(int64 row, int64 column) const {
    return row * groups / bins * groups + column * groups / bins;
  }
  __device__ int64 per_class() const { return results / (classes > 0 ? classes : 1); }
};

// The samples of a bin along one axis.
struct Axis {
  double first, step, extent;
  int64 limit;

  __device__ double at(int64 s) const { return first + double(s) * step; }
  __device__ bool inside(int64 s) const { return at(s) >= -0.5 && at(s) <= double(limit) - 0.5; }
};

// A sample between two cells.
struct Cell {
  int64 low, high;
  double share;

  __device__ Cell(const Axis& axis, int64 s) {
    double at = axis.at(s);
    at = at < 0 ? 0 : at > double(axis.limit - 1) ? double(axis.limit - 1) : at;
    low = static_cast<int64>(at);
    share = at - double(low);
    high = share > 0 ? low + 1 : low;
  }
  __device__ double weight(int64 cell) const { return (cell == low ? 1 - share : 0) + (cell == high ? share : 0); }
};

template <class T> struct Bins {
  const T *roi, *shift;  // the offsets of the region, or null
  const Rule& r;

  __device__ Bins(const T* rois, const T* shifts, int64 region, const Rule& rule)
      : roi(rois + region * 5),
        shift(shifts == nullptr ? nullptr : shifts + region * 2 * rule.classes * rule.parts * rule.parts), r(rule) {}
  __device__ int64 image() const {
    const double given = convert<double>(roi[0]);
    return !(given > 0) ? 0 : given < double(r.images) ? static_cast<int64>(given) : r.images - 1;
  }
  // Axis 0 is across, axis 1 is down.
  __device__ Axis axis(int which, int64 kind, int64 row, int64 column) const {
    const double low = regions::half_away(convert<double>(roi[1 + which])) * r.scale - 0.5;
    const double high = (regions::half_away(convert<double>(roi[3 + which])) + 1) * r.scale - 0.5;
    const double extent = ::fmax(high - low, 0.1), size = extent / double(r.bins);
    double first = low + double(which == 0 ? column : row) * size;
    if (shift != nullptr) {
      const int64 at = ((kind * 2 + which) * r.parts + r.part(row)) * r.parts + r.part(column);
      first += convert<double>(shift[at]) * r.deviation * extent;
    }
    return {first, size / double(r.samples), extent, which == 0 ? r.width : r.height};
  }
  // Samples inside, at least 1.
  __device__ double count(const Axis& across, const Axis& down) const {
    int64 columns = 0, rows = 0;
    for (int64 s = 0; s < r.samples; ++s) {
      columns += across.inside(s);
      rows += down.inside(s);
    }
    return columns * rows > 0 ? double(columns * rows) : 1.0;
  }
};

template <class V, class T>
__device__ inline void pool(const T* x, const T* rois, const T* shifts, T* y, int request, const Rule& r) {
  const int64 n = r.rois * r.results * r.bins * r.bins, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 column = i % r.bins, row = i / r.bins % r.bins, channel = i / r.bins / r.bins % r.results;
    const Bins<T> bins(rois, shifts, i / r.bins / r.bins / r.results, r);
    const int64 kind = channel / r.per_class(), from = channel * r.groups * r.groups + r.group(row, column);
    const Axis across = bins.axis(0, kind, row, column), down = bins.axis(1, kind, row, column);
    const T* image = x + (bins.image() * r.channels + from) * r.height * r.width;
    V sum = 0;
    for (int64 s = 0; s < r.samples; ++s) {
      if (!down.inside(s)) continue;
      const Cell v(down, s);
      const T *top = image + v.low * r.width, *bottom = image + v.high * r.width;
      for (int64 t = 0; t < r.samples; ++t) {
        if (!across.inside(t)) continue;
        const Cell h(across, t);
        const V above = convert<V>(top[h.low]) * V(1 - h.share) + convert<V>(top[h.high]) * V(h.share);
        const V below = convert<V>(bottom[h.low]) * V(1 - h.share) + convert<V>(bottom[h.high]) * V(h.share);
        sum += above * V(1 - v.share) + below * V(v.share);
      }
    }
    store(y, i, request, sum / V(bins.count(across, down)));
  }
}

// The gradient of data.
template <class V, class T>
__device__ inline void backward_pool(const T* head, const T* rois, const T* shifts, T* made, int request,
                                     const Rule& r) {
  const int64 n = r.images * r.channels * r.height * r.width, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 x = i % r.width, y = i / r.width % r.height, plane = i / r.width / r.height;
    const int64 image = plane / r.channels, channel = plane % r.channels / (r.groups * r.groups);
    V sum = 0;
    for (int64 region = 0; region < r.rois; ++region) {
      const Bins<T> bins(rois, shifts, region, r);
      if (bins.image() != image) continue;
      for (int64 bin = 0; bin < r.bins * r.bins; ++bin) {
        const int64 row = bin / r.bins, column = bin % r.bins, kind = channel / r.per_class();
        if (r.group(row, column) != plane % (r.groups * r.groups)) continue;
        const Axis across = bins.axis(0, kind, row, column), down = bins.axis(1, kind, row, column);
        double by_row = 0, by_column = 0;  // the weights of rows and of columns are independent
        for (int64 s = 0; s < r.samples; ++s) by_row += down.inside(s) ? Cell(down, s).weight(y) : 0;
        if (by_row == 0) continue;
        for (int64 s = 0; s < r.samples; ++s) by_column += across.inside(s) ? Cell(across, s).weight(x) : 0;
        if (by_column == 0) continue;
        const V share = convert<V>(head[(region * r.results + channel) * r.bins * r.bins + bin]);
        sum += share * V(by_row * by_column / bins.count(across, down));
      }
    }
    store(made, i, request, sum);
  }
}

// The gradient of offsets, by regions, classes, axes, parts.
template <class V, class T>
__device__ inline void backward_shift(const T* head, const T* x, const T* rois, const T* shifts, T* made, int request,
                                      const Rule& r) {
  const int64 area = r.parts * r.parts, n = r.rois * r.classes * 2 * area, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 kind = i / area / 2 % r.classes, region = i / area / 2 / r.classes;
    const int which = static_cast<int>(i / area % 2);
    const Bins<T> bins(rois, shifts, region, r);
    V total = 0;
    for (int64 bin = 0; bin < r.bins * r.bins; ++bin) {
      const int64 row = bin / r.bins, column = bin % r.bins;
      if (r.part(row) * r.parts + r.part(column) != i % area) continue;
      const Axis across = bins.axis(0, kind, row, column), down = bins.axis(1, kind, row, column);
      V sum = 0;
      for (int64 own = kind * r.per_class(); own < (kind + 1) * r.per_class(); ++own) {
        const int64 plane = bins.image() * r.channels + own * r.groups * r.groups + r.group(row, column);
        const T* image = x + plane * r.height * r.width;
        V slopes = 0;
        for (int64 s = 0; s < r.samples * r.samples; ++s) {
          if (!down.inside(s / r.samples) || !across.inside(s % r.samples)) continue;
          const Cell v(down, s / r.samples), h(across, s % r.samples);
          const V a = convert<V>(image[v.low * r.width + h.low]), b = convert<V>(image[v.low * r.width + h.high]);
          const V c = convert<V>(image[v.high * r.width + h.low]), d = convert<V>(image[v.high * r.width + h.high]);
          slopes += which == 0 ? (b - a) * V(1 - v.share) + (d - c) * V(v.share)
                               : (c - a) * V(1 - h.share) + (d - b) * V(h.share);
        }
        sum += slopes * convert<V>(head[(region * r.results + own) * r.bins * r.bins + bin]);
      }
      const double extent = which == 0 ? across.extent : down.extent;
      total += sum * V(extent * r.deviation / bins.count(across, down));
    }
    store(made, i, request, total);
  }
}

}  // namespace deformable
}  // namespace mx
