// SPDX-License-Identifier: Apache-2.0
//
// Convolution as a matrix product whose factors are read from the tensors where they lie ("implicit
// GEMM"): forward, gradient of data, gradient of weights; one to three spatial axes, groups, dilation,
// channels first or last.  A block computes a tile of 64 x 64 results from tiles of 64 x 16 in shared
// memory; a thread computes 4 x 4 of them.  Sums are taken in float, of doubles in double.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace convolution {

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kEach = 4;
constexpr int kAcross = kThreads / kDepth;  // rows that one round of loads covers, with threads along the depth

template <class T> struct sum_of { using type = float; };
template <> struct sum_of<double> { using type = double; };
template <class T> using Sum = typename sum_of<T>::type;

// Of one group: c channels of data, f of the result.  Elements of a tensor are fewer than 2^31.
struct Geometry {
  int32 batch, groups, c, f;
  int32 in[3], out[3], kernel[3], stride[3], dilate[3], pad[3];
  int32 last;  // channels are the last axis

  __device__ int32 taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  __device__ int32 depth() const { return c * taps(); }
  __device__ int32 inside() const { return in[0] * in[1] * in[2]; }
  __device__ int32 outside() const { return out[0] * out[1] * out[2]; }
  // Where channel `channel` of `channels` at the spatial index `place` of `places` lies.
  __device__ int32 at(int32 example, int32 channel, int32 channels, int32 place, int32 places) const {
    return last ? (example * places + place) * channels + channel : (example * channels + channel) * places + place;
  }
  // An index along the depth of a filter, in the order of its memory.
  __device__ void split(int32 k, int32& channel, int32 tap[3]) const {
    int32 rest;
    if (last) {
      channel = k % c;
      rest = k / c;
    } else {
      channel = k / taps();
      rest = k % taps();
    }
    tap[2] = rest % kernel[2];
    rest /= kernel[2];
    tap[1] = rest % kernel[1];
    tap[0] = rest / kernel[1];
  }
  __device__ int32 joined(int32 channel, const int32 tap[3]) const {
    const int32 one = (tap[0] * kernel[1] + tap[1]) * kernel[2] + tap[2];
    return last ? one * c + channel : channel * taps() + one;
  }
};

// An example and three coordinates.
struct Place {
  int32 example, at[3];
};
__device__ inline Place place_of(int32 position, const int32 extent[3]) {
  Place p;
  p.at[2] = position % extent[2];
  position /= extent[2];
  p.at[1] = position % extent[1];
  position /= extent[1];
  p.at[0] = position % extent[0];
  p.example = position / extent[0];
  return p;
}

// The element of data that tap `tap` of the window at `p` sees, -1 for one of the padding.
__device__ inline int32 seen(const Geometry& g, const Place& p, const int32 tap[3]) {
  int32 at = 0;
  for (int i = 0; i < 3; ++i) {
    const int32 x = p.at[i] * g.stride[i] - g.pad[i] + tap[i] * g.dilate[i];
    if (x < 0 || x >= g.in[i]) return -1;
    at = at * g.in[i] + x;
  }
  return at;
}
// The window whose tap `tap` sees the element of data at `p`, -1 where there is none.
__device__ inline int32 seeing(const Geometry& g, const Place& p, const int32 tap[3]) {
  int32 at = 0;
  for (int i = 0; i < 3; ++i) {
    const int32 x = p.at[i] + g.pad[i] - tap[i] * g.dilate[i];
    if (x < 0 || x % g.stride[i] != 0 || x / g.stride[i] >= g.out[i]) return -1;
    at = at * g.out[i] + x / g.stride[i];
  }
  return at;
}

// What a factor of the product knows of one row or column before it is read along the depth.
struct Line {
  Place place;
  int32 channel, tap[3];
  bool inside;
};

// y = w * x (+ bias): rows are filters, columns the positions of all examples.
template <class T> struct Forward {
  Geometry g;
  int32 group;
  const T *x, *w, *bias;
  T* y;
  int request;
  static constexpr bool kColumnsAlongDepth = false;

  __device__ int32 rows() const { return g.f; }
  __device__ int32 columns() const { return g.batch * g.outside(); }
  __device__ int32 depth() const { return g.depth(); }
  __device__ Line row(int32 m) const { return {{}, m, {}, m < g.f}; }
  __device__ Line column(int32 n) const { return {place_of(n, g.out), 0, {}, n < columns()}; }
  __device__ Sum<T> a(const Line& row, int32 k) const {
    return convert<Sum<T>>(w[(group * g.f + row.channel) * g.depth() + k]);
  }
  __device__ Sum<T> b(const Line& column, int32 k) const {
    int32 channel, tap[3];
    g.split(k, channel, tap);
    const int32 at = seen(g, column.place, tap);
    if (at < 0) return 0;
    return convert<Sum<T>>(x[g.at(column.place.example, group * g.c + channel, g.groups * g.c, at, g.inside())]);
  }
  __device__ void store(int32 m, int32 n, int32, Sum<T> value) const {
    const int32 filter = group * g.f + m, places = g.outside();
    if (bias != nullptr) value += convert<Sum<T>>(bias[filter]);
    mx::store(y, g.at(n / places, filter, g.groups * g.f, n % places, places), request, value);
  }
};

// x = wᵀ * y (+ bias), the gradient of data: rows are channels of data, columns its positions.
template <class T> struct Transposed {
  Geometry g;
  int32 group;
  const T *y, *w, *bias;
  T* x;
  int request;
  static constexpr bool kColumnsAlongDepth = false;

  __device__ int32 rows() const { return g.c; }
  __device__ int32 columns() const { return g.batch * g.inside(); }
  __device__ int32 depth() const { return g.f * g.taps(); }
  __device__ void split(int32 k, int32& filter, int32 tap[3]) const {
    filter = k / g.taps();
    int32 rest = k % g.taps();
    tap[2] = rest % g.kernel[2];
    rest /= g.kernel[2];
    tap[1] = rest % g.kernel[1];
    tap[0] = rest / g.kernel[1];
  }
  __device__ Line row(int32 m) const { return {{}, m, {}, m < g.c}; }
  __device__ Line column(int32 n) const { return {place_of(n, g.in), 0, {}, n < columns()}; }
  __device__ Sum<T> a(const Line& row, int32 k) const {
    int32 filter, tap[3];
    split(k, filter, tap);
    return convert<Sum<T>>(w[(group * g.f + filter) * g.depth() + g.joined(row.channel, tap)]);
  }
  __device__ Sum<T> b(const Line& column, int32 k) const {
    int32 filter, tap[3];
    split(k, filter, tap);
    const int32 at = seeing(g, column.place, tap);
    if (at < 0) return 0;
    return convert<Sum<T>>(y[g.at(column.place.example, group * g.f + filter, g.groups * g.f, at, g.outside())]);
  }
  __device__ void store(int32 m, int32 n, int32, Sum<T> value) const {
    const int32 channel = group * g.c + m, places = g.inside();
    if (bias != nullptr) value += convert<Sum<T>>(bias[channel]);
    mx::store(x, g.at(n / places, channel, g.groups * g.c, n % places, places), request, value);
  }
};

// The gradient of weights: rows are filters, columns their elements, the depth are the positions of all
// examples, which may be cut into parts that are added up later.
template <class T, class W> struct Weights {
  Geometry g;
  int32 group;
  const T *x, *y;
  W* w;
  int request;
  static constexpr bool kColumnsAlongDepth = true;

  __device__ int32 rows() const { return g.f; }
  __device__ int32 columns() const { return g.depth(); }
  __device__ int32 depth() const { return g.batch * g.outside(); }
  __device__ Line row(int32 m) const { return {{}, m, {}, m < g.f}; }
  __device__ Line column(int32 n) const {
    Line line{{}, 0, {}, n < g.depth()};
    g.split(n, line.channel, line.tap);
    return line;
  }
  __device__ Sum<T> a(const Line& row, int32 k) const {
    const int32 places = g.outside();
    return convert<Sum<T>>(y[g.at(k / places, group * g.f + row.channel, g.groups * g.f, k % places, places)]);
  }
  __device__ Sum<T> b(const Line& column, int32 k) const {
    const Place p = place_of(k, g.out);
    const int32 at = seen(g, p, column.tap);
    if (at < 0) return 0;
    return convert<Sum<T>>(x[g.at(p.example, group * g.c + column.channel, g.groups * g.c, at, g.inside())]);
  }
  __device__ void store(int32 m, int32 n, int32 part, Sum<T> value) const {
    const uint64 whole = static_cast<uint64>(g.groups) * g.f * g.depth();
    mx::store(w, part * whole + static_cast<uint64>(group * g.f + m) * g.depth() + n, request, value);
  }
};

__device__ inline int32 over(int32 a, int32 b) { return (a + b - 1) / b; }

// All tiles of a product, groups and parts of the depth one after another.
template <class V, class Problem> __device__ inline void multiply(Problem& problem, int32 groups, int32 parts) {
  __shared__ V left[kDepth][kTile + 1];
  __shared__ V right[kDepth][kTile + 1];
  const int32 t = threadIdx.x, across = over(problem.columns(), kTile), down = over(problem.rows(), kTile);
  const int32 depth = problem.depth(), length = over(depth, parts);
  const uint64 tiles = static_cast<uint64>(across) * down * parts * groups;
  for (uint64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int32 n0 = static_cast<int32>(tile % across) * kTile;
    const int32 m0 = static_cast<int32>(tile / across % down) * kTile;
    const int32 part = static_cast<int32>(tile / across / down % parts);
    problem.group = static_cast<int32>(tile / across / down / parts);
    const int32 begin = part * length, end = begin + length < depth ? begin + length : depth;
    Line rows[kEach], columns[kEach];
    for (int i = 0; i < kEach; ++i) {
      rows[i] = problem.row(m0 + t / kDepth + kAcross * i);
      columns[i] = problem.column(Problem::kColumnsAlongDepth ? n0 + t / kDepth + kAcross * i : n0 + t % kTile);
    }
    V sums[kEach][kEach] = {};
    for (int32 k0 = begin; k0 < end; k0 += kDepth) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int32 k = t % kDepth, m = t / kDepth + kAcross * i;
        left[k][m] = rows[i].inside && k0 + k < end ? problem.a(rows[i], k0 + k) : V(0);
        const int32 kb = Problem::kColumnsAlongDepth ? k : t / kTile + kThreads / kTile * i;
        const int32 n = Problem::kColumnsAlongDepth ? m : t % kTile;
        right[kb][n] = columns[i].inside && k0 + kb < end ? problem.b(columns[i], k0 + kb) : V(0);
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
        V a[kEach], b[kEach];
        for (int i = 0; i < kEach; ++i) {
          a[i] = left[k][t / 16 + 16 * i];
          b[i] = right[k][t % 16 + 16 * i];
        }
        for (int i = 0; i < kEach; ++i)
          for (int j = 0; j < kEach; ++j) sums[i][j] += a[i] * b[j];
      }
      __syncthreads();
    }
    for (int i = 0; i < kEach; ++i) {
      for (int j = 0; j < kEach; ++j) {
        const int32 m = m0 + t / 16 + 16 * i, n = n0 + t % 16 + 16 * j;
        if (m < problem.rows() && n < problem.columns()) problem.store(m, n, part, sums[i][j]);
      }
    }
  }
}

template <class T>
__device__ inline void forward(const T* x, const T* w, const T* bias, T* y, int request, const Geometry& g) {
  if (request == kNull) return;
  Forward<T> problem{g, 0, x, w, bias, y, request};
  multiply<Sum<T>>(problem, g.groups, 1);
}
template <class T>
__device__ inline void transposed(const T* y, const T* w, const T* bias, T* x, int request, const Geometry& g) {
  if (request == kNull) return;
  Transposed<T> problem{g, 0, y, w, bias, x, request};
  multiply<Sum<T>>(problem, g.groups, 1);
}
// `wanted`: what is done with the gradient in the end; w may be parts of it.
template <class T, class W>
__device__ inline void weights(const T* x, const T* y, W* w, int request, int wanted, int32 parts,
                               const Geometry& g) {
  if (wanted == kNull) return;
  Weights<T, W> problem{g, 0, x, y, w, request};
  multiply<Sum<T>>(problem, g.groups, parts);
}

// The parts of a gradient added up, in their order.
template <class T>
__device__ inline void join(const Sum<T>* made, T* w, int request, int32 parts, int32 elements) {
  if (request == kNull) return;
  const int32 step = gridDim.x * blockDim.x;
  for (int64 i = blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += step) {
    Sum<T> sum = 0;
    for (int32 part = 0; part < parts; ++part) sum += made[static_cast<int64>(part) * elements + i];
    store(w, i, request, sum);
  }
}

}  // namespace convolution
}  // namespace mx
