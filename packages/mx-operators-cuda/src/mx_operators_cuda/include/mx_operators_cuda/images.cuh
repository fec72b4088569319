// SPDX-License-Identifier: Apache-2.0
//
// Images as tensors of a network, mirrored, of another size, and in other colours.  Random amounts come from Philox
// counters, as on the CPU.  Integers are computed in float32, cut to what they hold, then towards zero.
#pragma once

#include "mx_core/philox.hpp"
#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace images {

struct Shape {
  int64 batch, height, width, channels;
};

template <class T> __device__ inline void to_tensor(const T* x, float* y, int request, const Shape& g) {
  const int64 size = g.height * g.width, n = g.batch * size * g.channels, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 from = (i / size / g.channels * size + i % size) * g.channels + i / size % g.channels;
    store(y, i, request, convert<float>(x[from]) / 255.0f);
  }
}

// (x - mean) / std of each of three channels, which lie before height and width; the gradient only divides.
template <class V, class T>
__device__ inline void normalize(const T* x, T* y, int request, double m0, double m1, double m2, double s0, double s1,
                                 double s2, int64 gradient, const Shape& g) {
  const int64 size = g.height * g.width, n = g.batch * size * g.channels, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 c = i / size % g.channels;
    const V mean = V(c == 0 ? m0 : c == 1 ? m1 : m2), deviation = V(c == 0 ? s0 : c == 1 ? s1 : s2);
    const V value = convert<V>(x[i]);
    store(y, i, request, (gradient != 0 ? value : value - mean) / deviation);
  }
}

// Rows or columns back to front in half the cases.
template <class T> __device__ inline void maybe_flipped(const T* x, T* y, int request, uint64 key, uint64 counter, int64 axis, const Shape& g) {
  const bool flips = philox::uniform32(philox::block(key, counter).words[0]) < 0.5f;
  const int64 row = g.width * g.channels, n = g.height * row, step = int64(gridDim.x) * blockDim.x;
  using Wide = decltype(widen(x[0]));
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    int64 from = i;
    if (flips && axis == 0) from = (g.height - 1 - i / row) * row + i % row;
    if (flips && axis == 1) from = i / row * row + (g.width - 1 - i % row / g.channels) * g.channels + i % g.channels;
    if (request == kAdd) store(y, i, request, convert<Wide>(x[from]));
    else if (request != kNull) y[i] = x[from];
  }
}

// ---- another size ----

struct Sizes {
  int64 batch, height, width, channels, rows, columns;
};

template <class T> __device__ inline void nearest(const T* x, T* y, int request, const Sizes& g) {
  const int64 n = g.batch * g.rows * g.columns * g.channels, step = int64(gridDim.x) * blockDim.x;
  using Wide = decltype(widen(x[0]));
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 c = i % g.channels, column = i / g.channels % g.columns, row = i / g.channels / g.columns % g.rows;
    const double v = double(row) * (double(g.height) / double(g.rows));
    const double h = double(column) * (double(g.width) / double(g.columns));
    const int64 a = v < double(g.height - 1) ? static_cast<int64>(v) : g.height - 1;
    const int64 b = h < double(g.width - 1) ? static_cast<int64>(h) : g.width - 1;
    const int64 from = ((i / g.channels / g.columns / g.rows * g.height + a) * g.width + b) * g.channels + c;
    if (request == kAdd) store(y, i, request, convert<Wide>(x[from]));
    else if (request != kNull) y[i] = x[from];
  }
}

// The `taps` neighbours of a position and their weights: 2 of bilinear interpolation, 4 of bicubic convolution with
// a = -3/4 (Keys, 1981).  Beyond the border its element stands in.
template <int taps> struct Taps {
  int64 low, old;
  double share, weights[taps];

  __device__ Taps(int64 i, int64 extent, int64 fresh) : old(extent) {
    const double at = (double(i) + 0.5) * (double(old) / double(fresh)) - 0.5;
    low = static_cast<int64>(::floor(at));
    share = at - double(low);
    if constexpr (taps == 2) {
      weights[0] = 1 - share;
      weights[1] = share;
    } else {
      const double a = -0.75, x = share, z = 1 - share;
      weights[0] = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a;
      weights[1] = ((a + 2) * x - (a + 3)) * x * x + 1;
      weights[2] = ((a + 2) * z - (a + 3)) * z * z + 1;
      weights[3] = 1 - weights[0] - weights[1] - weights[2];
    }
  }
  __device__ int64 element(int k) const {
    const int64 at = low + k - (taps == 2 ? 0 : 1);
    return at < 0 ? 0 : at < old ? at : old - 1;
  }
  // In 2048ths; where neighbours are one element, their sum counts.
  __device__ int64 fixed(int k) const {
    double sum = 0;
    bool first = true;
    for (int j = 0; j < taps; ++j) {
      if (element(j) != element(k)) continue;
      if (j < k) first = false;
      sum += weights[j];
    }
    return first ? static_cast<int64>(::rint(sum * 2048)) : 0;
  }
};

template <int taps, class V, class T>
__device__ inline void interpolated(const T* x, T* y, int request, const Sizes& g) {
  const int64 n = g.batch * g.rows * g.columns * g.channels, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64 c = i % g.channels, column = i / g.channels % g.columns, row = i / g.channels / g.columns % g.rows;
    const T* image = x + i / g.channels / g.columns / g.rows * g.height * g.width * g.channels;
    const Taps<taps> down(row, g.height, g.rows), across(column, g.width, g.columns);
    if constexpr (is_same<T, uint8>) {  // in integers, as the CPU
      int64 whole = 0;
      for (int a = 0; a < taps; ++a) {
        int64 along = 0;
        for (int b = 0; b < taps; ++b) {
          along += across.fixed(b) * image[(down.element(a) * g.width + across.element(b)) * g.channels + c];
        }
        if (taps == 2) whole += (static_cast<int64>(::rint(down.weights[a] * 2048)) * (along >> 4)) >> 16;
        else whole += down.fixed(a) * along;
      }
      whole = taps == 2 ? (whole + 2) >> 2 : (whole + (1 << 21)) >> 22;
      store(y, i, request, whole < 0 ? int64(0) : whole > 255 ? int64(255) : whole);
    } else {
      V sum = 0;
      for (int a = 0; a < taps; ++a) {
        V along = 0;
        for (int b = 0; b < taps; ++b) {
          along += V(across.weights[b]) *
                   convert<V>(image[(down.element(a) * g.width + across.element(b)) * g.channels + c]);
        }
        sum += V(down.weights[a]) * along;
      }
      store(y, i, request, sum);
    }
  }
}

// ---- colours ----

// One pixel, or one number of an image without colours.
template <class V> struct Pixel {
  V c[3];
  bool gray;

  template <class T> __device__ Pixel(const T* x, int64 channels) : gray(channels == 1) {
    for (int k = 0; k < 3; ++k) c[k] = gray && k > 0 ? V(0) : convert<V>(x[k]);
  }
  __device__ V lightness() const { return gray ? c[0] : c[0] * V(0.299f) + c[1] * V(0.587f) + c[2] * V(0.114f); }
  __device__ void scale(V factor, V shift) {
    for (int k = 0; k < 3; ++k) c[k] = c[k] * factor + shift;
  }
  __device__ void hue(V turn) {
    if (gray) return;
    for (int k = 0; k < 3; ++k) c[k] /= V(255);
    const V high = maximum(maximum(c[0], c[1]), c[2]), low = minimum(minimum(c[0], c[1]), c[2]);
    const V light = (high + low) / 2, span = high - low, safe = span > 0 ? span : V(1);
    const V divisor = light < V(0.5) ? high + low : 2 - high - low;
    const V full = span > 0 ? span / (divisor == 0 ? V(1) : divisor) : V(0);
    const V sector = high == c[0]   ? (c[1] - c[2]) / safe
                     : high == c[1] ? (c[2] - c[0]) / safe + 2
                                    : (c[0] - c[1]) / safe + 4;
    const V angle = mod((span > 0 ? sector / 6 : V(0)) + turn, V(1));
    const V top = light <= V(0.5) ? light * (1 + full) : light + full - light * full, bottom = 2 * light - top;
    for (int k = 0; k < 3; ++k) {
      const V t = mod(angle + V(1 - k) / 3, V(1));
      const V rising = bottom + (top - bottom) * 6 * t, falling = bottom + (top - bottom) * 6 * (V(2) / 3 - t);
      c[k] = (t < V(1) / 6 ? rising : t < V(0.5) ? top : t < V(2) / 3 ? falling : bottom) * 255;
    }
  }
};

enum Change { kBrightness = 0, kContrast = 1, kSaturation = 2, kHue = 3 };

// What is done to every pixel, in order; all indices are constants, so that this stays in registers.
template <class V> struct Changes {
  int kinds[4];  // -1: nothing
  V amounts[4];

  // One change, by an amount uniform between two numbers.
  __device__ void draw_one(uint64 key, uint64 counter, int kind, double low, double high) {
    const double drawn = double(philox::uniform32(philox::block(key, counter).words[0]));
#pragma unroll
    for (int place = 0; place < 4; ++place) kinds[place] = place == 0 ? kind : -1;
    amounts[0] = V(low + drawn * (high - low));
  }
  // Up to four, each within its width of 1 (hue: of 0), in random order.
  __device__ void draw_all(uint64 key, uint64 counter, const double (&widths)[4]) {
    const philox::Block first = philox::block(key, counter), second = philox::block(key, counter + 1);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float own = philox::uniform32(second.words[k]);
      int rank = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float other = philox::uniform32(second.words[j]);
        rank += other < own || (other == own && j < k);
      }
      const double drawn = double(philox::uniform32(first.words[k]));
#pragma unroll
      for (int place = 0; place < 4; ++place) {
        if (place != rank) continue;
        kinds[place] = widths[k] > 0 ? k : -1;
        amounts[place] = V((k == kHue ? 0.0 : 1.0) + widths[k] * (2 * drawn - 1));
      }
    }
  }
  // The changes before number `end`; a contrast needs the mean lightness at its time.
  __device__ void apply(Pixel<V>& pixel, int end, V mean) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= end) break;
      const V f = amounts[k];
      if (kinds[k] == kBrightness) pixel.scale(f, V(0));
      if (kinds[k] == kContrast) pixel.scale(f, mean);
      if (kinds[k] == kSaturation && !pixel.gray) pixel.scale(f, (1 - f) * pixel.lightness());
      if (kinds[k] == kHue) pixel.hue(f);
    }
  }
  // Which one is a contrast, or -1; and its amount.
  __device__ int contrast(V& amount) const {
    int found = -1;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (kinds[k] != kContrast) continue;
      found = k;
      amount = amounts[k];
    }
    return found;
  }
};

template <class V>
__device__ inline Changes<V> drawn(uint64 key, uint64 counter, int64 kind, double a, double b, double c, double d) {
  Changes<V> changes;
  if (kind >= 0) {
    changes.draw_one(key, counter, static_cast<int>(kind), a, b);
  } else {
    const double widths[4] = {a, b, c, d};
    changes.draw_all(key, counter, widths);
  }
  return changes;
}

constexpr int kParts = 64, kThreads = 256;

// Sums of lightness before the contrast changes, one per block; `parts` has kParts places.
template <class V, class T>
__device__ inline void lightness(const T* x, double* parts, uint64 key, uint64 counter, int64 kind, double a, double b,
                                 double c, double d, int64 pixels, int64 channels) {
  __shared__ double sums[kThreads];
  const Changes<V> changes = drawn<V>(key, counter, kind, a, b, c, d);
  V amount = 0;
  const int end = changes.contrast(amount);
  for (int64 block = blockIdx.x; block < kParts; block += gridDim.x) {
    double sum = 0;
    for (int64 i = block * kThreads + threadIdx.x; i < pixels && end >= 0; i += int64(kParts) * kThreads) {
      Pixel<V> pixel(x + i * channels, channels);
      changes.apply(pixel, end, V(0));
      sum += double(pixel.lightness());
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) parts[block] = sums[0];
    __syncthreads();
  }
}

// Integers are cut to what they hold; NaN is 0.
template <class T, class V> __device__ inline void store_color(T* y, int64 i, int request, V value) {
  if constexpr (is_same<T, half> || is_same<T, bfloat16> || is_floating<T>) {
    store(y, i, request, value);
  } else {
    constexpr double low = double(limits<T>::low), high = double(limits<T>::high);
    const double wide = value != value ? 0 : ::trunc(double(value));
    const int64 whole = wide <= low ? int64(limits<T>::low) : wide >= high ? int64(limits<T>::high) : int64(wide);
    store(y, i, request, whole);
  }
}

template <class T, class V>
__device__ inline void store_pixel(T* y, int64 i, int request, const Pixel<V>& pixel, int64 channels) {
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    if (k < channels) store_color(y, i * channels + k, request, pixel.c[k]);
  }
}

template <class V, class T>
__device__ inline void colors(const T* x, T* y, int request, const double* parts, uint64 key, uint64 counter, int64 kind,
                              double a, double b, double c, double d, int64 pixels, int64 channels) {
  const Changes<V> changes = drawn<V>(key, counter, kind, a, b, c, d);
  V amount = 0, mean = 0;
  const int contrast = changes.contrast(amount);
  double sum = 0;
  for (int k = 0; k < kParts && contrast >= 0; ++k) sum += parts[k];
  if (contrast >= 0) mean = V(double(1 - amount) * (sum / double(pixels)));
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < pixels; i += step) {
    Pixel<V> pixel(x + i * channels, channels);
    changes.apply(pixel, 4, mean);
    store_pixel(y, i, request, pixel, channels);
  }
}

// Every pixel shifted along the principal components of ImageNet's colours; normal amounts if `deviation` is not below
// 0, else those given.
template <class V, class T>
__device__ inline void lighting(const T* x, T* y, int request, uint64 key, uint64 counter, double deviation, double a0,
                                double a1, double a2, int64 pixels, int64 channels) {
  if (deviation >= 0) {
    const philox::Block block = philox::block(key, counter);
    float z[4];
    philox::normal32(block.words[0], block.words[1], z[0], z[1]);
    philox::normal32(block.words[2], block.words[3], z[2], z[3]);
    const float scale = static_cast<float>(deviation);
    a0 = double(z[0] * scale);
    a1 = double(z[1] * scale);
    a2 = double(z[2] * scale);
  }
  const double shift[3] = {
      -0.5675 * 55.46 * a0 + 0.7192 * 4.794 * a1 + 0.4009 * 1.148 * a2,
      -0.5808 * 55.46 * a0 - 0.0045 * 4.794 * a1 - 0.8140 * 1.148 * a2,
      -0.5836 * 55.46 * a0 - 0.6948 * 4.794 * a1 + 0.4203 * 1.148 * a2,
  };
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < pixels; i += step) {
    Pixel<V> pixel(x + i * channels, channels);
    for (int k = 0; k < 3 && !pixel.gray; ++k) pixel.c[k] += V(shift[k]);
    store_pixel(y, i, request, pixel, channels);
  }
}

}  // namespace images
}  // namespace mx
