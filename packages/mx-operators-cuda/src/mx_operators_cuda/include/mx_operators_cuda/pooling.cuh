// SPDX-License-Identifier: Apache-2.0
//
// Pooling over one to three spatial axes, channels first or last: a thread per element of the result.
// Gradients are gathered: a thread adds up what the windows over its element of data pass to it.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace pooling {

enum Kind { kMaximum = 0, kAverage = 1, kSum = 2, kNorm = 3 };

struct Geometry {
  int64 batch, channels;
  int64 in[3], out[3], kernel[3], stride[3], pad[3];
  int64 last;      // channels are the last axis
  int64 padding;   // averages count padding
  int64 exponent;  // of norms

  __device__ int64 inside() const { return in[0] * in[1] * in[2]; }
  __device__ int64 outside() const { return out[0] * out[1] * out[2]; }
};

// An element of a tensor: where the first of its channel lies, elements between neighbours, coordinates.
struct Element {
  int64 base, step, example, channel, at[3];
};
__device__ inline Element element(const Geometry& g, int64 i, const int64 extent[3]) {
  Element e;
  const int64 places = extent[0] * extent[1] * extent[2];
  int64 place;
  if (g.last) {
    e.channel = i % g.channels;
    place = i / g.channels % places;
    e.example = i / g.channels / places;
  } else {
    place = i % places;
    e.channel = i / places % g.channels;
    e.example = i / places / g.channels;
  }
  e.at[2] = place % extent[2];
  e.at[1] = place / extent[2] % extent[1];
  e.at[0] = place / extent[2] / extent[1];
  return e;
}
__device__ inline void locate(const Geometry& g, Element& e, int64 places) {
  e.step = g.last ? g.channels : 1;
  e.base = g.last ? e.example * places * g.channels + e.channel : (e.example * g.channels + e.channel) * places;
}

// A window: first and last + 1 coordinates in the data, and what an average is divided by.
struct Window {
  int64 first[3], end[3], count;
};
__device__ inline Window window(const Geometry& g, const int64 at[3]) {
  Window w;
  w.count = 1;
  for (int i = 0; i < 3; ++i) {
    const int64 first = at[i] * g.stride[i] - g.pad[i], padded = g.in[i] + g.pad[i];
    const int64 end = first + g.kernel[i] < padded ? first + g.kernel[i] : padded;
    w.first[i] = first > 0 ? first : 0;
    w.end[i] = end < g.in[i] ? end : g.in[i];
    const int64 held = w.end[i] > w.first[i] ? w.end[i] - w.first[i] : 0;
    w.count *= g.padding ? end - first : held;
  }
  if (w.count < 1) w.count = 1;
  return w;
}

template <class V> __device__ inline V raised(V x, int64 exponent) {
  V made = 1;
  for (int64 i = 0; i < exponent; ++i) made *= x;
  return made;
}
template <class V> __device__ inline V root(V x, int64 exponent) {
  return exponent == 1 ? x : exponent == 2 ? sign(x) * sqrt(absolute(x)) : sign(x) * power(absolute(x), V(1) / V(exponent));
}

template <class V, int kind, class T>
__device__ inline void forward(const T* x, T* y, int request, V lowest, const Geometry& g) {
  if (request == kNull) return;
  const int64 n = g.batch * g.channels * g.outside(), step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    Element e = element(g, i, g.out);
    locate(g, e, g.inside());
    const Window w = window(g, e.at);
    V made = kind == kMaximum ? lowest : V(0);
    for (int64 a = w.first[0]; a < w.end[0]; ++a)
      for (int64 b = w.first[1]; b < w.end[1]; ++b)
        for (int64 c = w.first[2]; c < w.end[2]; ++c) {
          const V value = convert<V>(x[e.base + ((a * g.in[1] + b) * g.in[2] + c) * e.step]);
          if (kind == kMaximum) made = value > made ? value : made;
          else if (kind == kNorm) made += raised(value, g.exponent);
          else made += value;
        }
    if (kind == kAverage) made /= V(w.count);
    if (kind == kNorm) made = root(made, g.exponent);
    store(y, i, request, made);
  }
}

// True when no earlier element of the window is the maximum, too.
template <class V, class T>
__device__ inline bool leads(const T* x, const Element& e, const Window& w, const Geometry& g, V most) {
  for (int64 a = w.first[0]; a < w.end[0]; ++a)
    for (int64 b = w.first[1]; b < w.end[1]; ++b)
      for (int64 c = w.first[2]; c < w.end[2]; ++c) {
        if (a == e.at[0] && b == e.at[1] && c == e.at[2]) return true;
        if (convert<V>(x[e.base + ((a * g.in[1] + b) * g.in[2] + c) * e.step]) == most) return false;
      }
  return true;
}

template <class V, int kind, class T>
__device__ inline void backward(const T* head, const T* x, const T* y, T* grad, int request, const Geometry& g) {
  if (request == kNull) return;
  const int64 n = g.batch * g.channels * g.inside(), step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    Element e = element(g, i, g.in), o = e;
    locate(g, e, g.inside());
    locate(g, o, g.outside());
    int64 low[3], high[3];
    for (int d = 0; d < 3; ++d) {
      const int64 reach = e.at[d] + g.pad[d] - g.kernel[d] + 1;
      low[d] = reach > 0 ? (reach + g.stride[d] - 1) / g.stride[d] : 0;
      const int64 final = (e.at[d] + g.pad[d]) / g.stride[d] + 1;
      high[d] = final < g.out[d] ? final : g.out[d];
    }
    V value = 0, sum = 0;
    if (kind == kMaximum || kind == kNorm) value = convert<V>(x[i]);
    for (o.at[0] = low[0]; o.at[0] < high[0]; ++o.at[0])
      for (o.at[1] = low[1]; o.at[1] < high[1]; ++o.at[1])
        for (o.at[2] = low[2]; o.at[2] < high[2]; ++o.at[2]) {
          const int64 at = o.base + ((o.at[0] * g.out[1] + o.at[1]) * g.out[2] + o.at[2]) * o.step;
          const V share = convert<V>(head[at]);
          if (kind == kSum) {
            sum += share;
          } else if (kind == kAverage) {
            sum += share / V(window(g, o.at).count);
          } else if (kind == kNorm) {
            const V whole = convert<V>(y[at]);
            if (whole != 0) sum += share * raised(value / whole, g.exponent - 1);
            else if (g.exponent == 1) sum += share;
          } else {
            const V most = convert<V>(y[at]);
            if (value == most && leads(x, e, window(g, o.at), g, most)) sum += share;
          }
        }
    store(grad, i, request, sum);
  }
}

}  // namespace pooling
}  // namespace mx
