// SPDX-License-Identifier: Apache-2.0
//
// Boxes: overlap, offsets from anchors, non-maximum suppression.  Boxes that compete are suppressed by a block per batch,
// best box first, with a barrier after each; what survives is written by a thread per element.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace boxes {

template <class V> struct Box {
  V x0, y0, x1, y1;

  template <class T> __device__ static Box read(const T* x, bool center) {
    const V a = convert<V>(x[0]), b = convert<V>(x[1]), c = convert<V>(x[2]), d = convert<V>(x[3]);
    return center ? Box{a - c / 2, b - d / 2, a + c / 2, b + d / 2} : Box{a, b, c, d};
  }
  __device__ V area() const { return x1 - x0 < 0 || y1 - y0 < 0 ? V(0) : (x1 - x0) * (y1 - y0); }
  __device__ V overlap(const Box& other) const {
    const V width = minimum(x1, other.x1) - maximum(x0, other.x0);
    const V height = minimum(y1, other.y1) - maximum(y0, other.y0);
    if (!(width > 0 && height > 0)) return 0;
    const V common = width * height, whole = area() + other.area() - common;
    return common > 0 && whole > 0 ? common / whole : V(0);
  }
};

template <class V, class T>
__device__ inline void overlaps(const T* a, const T* b, T* y, int request, int64 rows, int64 columns, int64 center) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += step) {
    const auto left = Box<V>::read(a + i / columns * 4, center != 0);
    store(y, i, request, left.overlap(Box<V>::read(b + i % columns * 4, center != 0)));
  }
}

// A thread per anchor.  No kernel can raise an error about a match that it reads: matches are limited to the boxes.
template <class V, class T>
__device__ inline void encode(const T* samples, const T* matches, const T* anchors, const T* refs, const T* means,
                              const T* stds, T* y, int request, T* mask, int mask_request, int64 batch, int64 n,
                              int64 m) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < batch * n; i += step) {
    const bool positive = convert<V>(samples[i]) > V(0.5);
    V made[4] = {0, 0, 0, 0};
    if (positive && m > 0) {
      const int64 given = convert<int64>(matches[i]), j = given < 0 ? 0 : given < m ? given : m - 1;
      const auto box = Box<V>::read(refs + (i / n * m + j) * 4, false), anchor = Box<V>::read(anchors + i * 4, false);
      const V width = anchor.x1 - anchor.x0, height = anchor.y1 - anchor.y0;
      made[0] = ((box.x0 + box.x1) / 2 - (anchor.x0 + anchor.x1) / 2) / width;
      made[1] = ((box.y0 + box.y1) / 2 - (anchor.y0 + anchor.y1) / 2) / height;
      made[2] = log((box.x1 - box.x0) / width);
      made[3] = log((box.y1 - box.y0) / height);
      for (int k = 0; k < 4; ++k) made[k] = (made[k] - convert<V>(means[k])) / convert<V>(stds[k]);
    }
    for (int k = 0; k < 4; ++k) {
      store(y, i * 4 + k, request, made[k]);
      store(mask, i * 4 + k, mask_request, positive ? V(1) : V(0));
    }
  }
}

template <class V, class T>
__device__ inline void decode(const T* x, const T* anchors, T* y, int request, double s0, double s1, double s2,
                              double s3, double limit, int64 corner, int64 total, int64 n) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += step) {
    const T *given = x + i * 4, *anchor = anchors + i % n * 4;
    V a = convert<V>(anchor[0]), b = convert<V>(anchor[1]), w = convert<V>(anchor[2]), h = convert<V>(anchor[3]);
    if (corner != 0) {
      const V x1 = w, y1 = h;
      w = x1 - a;
      h = y1 - b;
      a = (a + x1) / 2;
      b = (b + y1) / 2;
    }
    const V dx = convert<V>(given[0]) * V(s0), dy = convert<V>(given[1]) * V(s1);
    V dw = convert<V>(given[2]) * V(s2), dh = convert<V>(given[3]) * V(s3);
    if (limit > 0) {
      dw = minimum(dw, V(limit));
      dh = minimum(dh, V(limit));
    }
    const V x_middle = dx * w + a, y_middle = dy * h + b, half_w = exp(dw) * w / 2, half_h = exp(dh) * h / 2;
    store(y, i * 4, request, x_middle - half_w);
    store(y, i * 4 + 1, request, y_middle - half_h);
    store(y, i * 4 + 2, request, x_middle + half_w);
    store(y, i * 4 + 3, request, y_middle + half_h);
  }
}

// ---- non-maximum suppression of rows (class, score, box, ...) ----

struct Rows {
  int64 batch, n, width, coordinates, score, id, background, classes_compete, most, center_in, center_out;
};

// What rows are sorted by, best first; those that are not considered come last.
template <class V, class T>
__device__ inline void scores(const T* x, V* y, double least, const Rows& r) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.batch * r.n; i += step) {
    const T* row = x + i * r.width;
    const V score = convert<V>(row[r.score]);
    const bool wanted = r.id < 0 || convert<V>(row[r.id]) != V(r.background);
    y[i] = wanted && score > V(least) ? score : -infinity<V>();
  }
}

// A block per batch.  `alive` is scratch; `source` gets the rows that survive, best first, then -1.
template <class V, class T>
__device__ inline void suppress(const T* x, const V* keys, const int32* order, int32* alive, int32* source,
                                double threshold, const Rows& r) {
  for (int64 batch = blockIdx.x; batch < r.batch; batch += gridDim.x) {
    const T* rows = x + batch * r.n * r.width;
    const V* key = keys + batch * r.n;
    const int32* sorted = order + batch * r.n;
    int32 *lives = alive + batch * r.n, *made = source + batch * r.n;
    const int64 limit = r.most > 0 && r.most < r.n ? r.most : r.n;
    for (int64 i = threadIdx.x; i < r.n; i += blockDim.x) {
      lives[i] = i < limit && key[sorted[i]] > -infinity<V>();
      made[i] = -1;
    }
    __syncthreads();
    for (int64 i = 0; i < limit; ++i) {
      if (lives[i] != 0) {  // the same for all threads: nobody writes it before the barrier
        const T* best = rows + sorted[i] * r.width;
        const auto box = Box<V>::read(best + r.coordinates, r.center_in != 0);
        for (int64 j = i + 1 + threadIdx.x; j < limit; j += blockDim.x) {
          if (lives[j] == 0) continue;
          const T* other = rows + sorted[j] * r.width;
          if (r.classes_compete == 0 && convert<V>(best[r.id]) != convert<V>(other[r.id])) continue;
          if (box.overlap(Box<V>::read(other + r.coordinates, r.center_in != 0)) > V(threshold)) lives[j] = 0;
        }
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      int64 count = 0;
      for (int64 i = 0; i < limit; ++i) {
        if (lives[i] != 0) made[count++] = sorted[i];
      }
    }
    __syncthreads();
  }
}

template <class V, class T>
__device__ inline void survivors(const T* x, const int32* source, T* y, int request, int64* places, int place_request,
                                 const Rows& r) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.batch * r.n; i += step) {
    const int32 from = source[i];
    store(places, i, place_request, int64(from));
    const T* row = x + (i / r.n * r.n + from) * r.width;
    for (int64 k = 0; k < r.width; ++k) {
      V value = -1;
      const int64 c = k - r.coordinates;
      if (from >= 0) {
        value = convert<V>(row[k]);
        if (r.center_in != r.center_out && c >= 0 && c < 4) {
          const V low = convert<V>(row[r.coordinates + c % 2]), high = convert<V>(row[r.coordinates + 2 + c % 2]);
          if (r.center_out == 0) value = c < 2 ? low - high / 2 : low + high / 2;
          else value = c < 2 ? (low + high) / 2 : high - low;
        }
      }
      store(y, i * r.width + k, request, value);
    }
  }
}

// The gradient of a row is that of the place where it survives.
template <class V, class T>
__device__ inline void backward_survivors(const T* head, const int64* source, T* grad, int request, int64 batch,
                                          int64 n, int64 width) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < batch * n * width; i += step) {
    const int64 row = i / width % n, first = i / width / n * n;
    V value = 0;
    for (int64 k = 0; k < n; ++k) {
      if (source[first + k] == row) value = convert<V>(head[(first + k) * width + i % width]);
    }
    store(grad, i, request, value);
  }
}

}  // namespace boxes
}  // namespace mx
