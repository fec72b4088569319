// SPDX-License-Identifier: Apache-2.0
//
// The single-shot detector: anchors, training targets, detections; pairs of rows and columns, best first.  Objects and
// anchors of an image are matched by a block, and so are boxes suppressed; the rest is a thread per element.
//
// Source: Liu et al., SSD: Single Shot MultiBox Detector, ECCV 2016.
#pragma once

#include "mx_operators_cuda/block.cuh"
#include "mx_operators_cuda/boxes.cuh"

namespace mx {
namespace detectors {

using boxes::Box;

template <class V> __device__ inline V cut(V x) { return x < 0 ? V(0) : x > 1 ? V(1) : x; }

// One of `kinds` anchors of every position.
template <class T>
__device__ inline void anchors(T* y, int request, int64 height, int64 width, int64 kinds, int64 kind, double half_x,
                               double half_y, double step_x, double step_y, double offset_x, double offset_y,
                               int64 clip) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < height * width; i += step) {
    const double at_x = (double(i % width) + offset_x) * step_x, at_y = (double(i / width) + offset_y) * step_y;
    const auto put = [&](int64 k, double value) {
      store(y, (i * kinds + kind) * 4 + k, request, clip != 0 ? cut(value) : value);
    };
    put(0, at_x - half_x);
    put(1, at_y - half_y);
    put(2, at_x + half_x);
    put(3, at_y + half_y);
  }
}

// ---- training targets ----

struct Images {
  int64 batch, anchors, objects, width, classes;
};

// What is no object.
constexpr int32 kBackground = -1, kIgnored = -2;

// The anchor that overlaps an object most, of those that are not taken; none where the overlap is 0.
template <class V, class T>
__device__ inline void seek(const T* anchors, const T* object, const int32* taken, V* value, int32* place, int64 n) {
  const auto box = Box<V>::read(object, false);
  V most = 0;
  int64 at = -1;
  for (int64 a = threadIdx.x; a < n; a += blockDim.x) {
    if (taken[a] >= 0) continue;
    const V common = box.overlap(Box<V>::read(anchors + a * 4, false));
    if (common > most) {
      most = common;
      at = a;
    }
  }
  const auto found = block::best(most, at);
  if (threadIdx.x == 0) {
    *value = found.value;
    *place = static_cast<int32>(found.place);
  }
  __syncthreads();
}

// The probability of the background; of what is no number, more than 1.
template <class V, class T> __device__ inline V background(const T* predicted, int64 classes, int64 anchors) {
  V top = convert<V>(predicted[0]), sum = 0;
  for (int64 c = 1; c < classes; ++c) top = maximum(top, convert<V>(predicted[c * anchors]));
  for (int64 c = 0; c < classes; ++c) sum += exp(convert<V>(predicted[c * anchors]) - top);
  const V found = exp(convert<V>(predicted[0]) - top) / sum;
  return found != found ? V(2) : found;
}

// A block per image.  Every object takes the best anchor that is left, best pair first; then anchors take objects.
// `keys` and `mined`, for negatives that are mined: what they are sorted by, and how many of them count.
template <class V, class T>
__device__ inline void match(const T* anchors, const T* labels, const T* predicted, int32* matched, V* keys, V* best,
                             int32* places, int32* mined, double threshold, double ratio, double limit,
                             const Images& s) {
  for (int64 image = blockIdx.x; image < s.batch; image += gridDim.x) {
    const T* objects = labels + image * s.objects * s.width;
    int32 *own = matched + image * s.anchors, *at = places + image * s.objects;
    V* found = best + image * s.objects;
    int64 count = 0;
    while (count < s.objects && convert<V>(objects[count * s.width]) != V(-1)) ++count;
    for (int64 a = threadIdx.x; a < s.anchors; a += blockDim.x) own[a] = kIgnored;
    __syncthreads();
    for (int64 j = 0; j < count; ++j) seek(anchors, objects + j * s.width + 1, own, found + j, at + j, s.anchors);
    for (int64 round = 0; round < count; ++round) {
      int64 pick = -1;
      for (int64 j = 0; j < count; ++j) {
        if (!(found[j] > V(1e-6))) continue;  // of those that are done it is 0
        const bool better = pick < 0 || found[j] > found[pick];
        if (better || (found[j] == found[pick] && at[j] < at[pick])) pick = j;
      }
      if (pick < 0) break;
      const int32 row = at[pick];
      __syncthreads();  // all have read it
      if (threadIdx.x == 0) {
        own[row] = static_cast<int32>(pick);
        found[pick] = 0;
      }
      __syncthreads();
      for (int64 j = 0; j < count; ++j) {
        if (found[j] > 0 && at[j] == row) {
          seek(anchors, objects + j * s.width + 1, own, found + j, at + j, s.anchors);
        }
      }
    }
    int64 positives = 0, candidates = 0;
    for (int64 a = threadIdx.x; a < s.anchors; a += blockDim.x) {
      V most = 0;
      if (own[a] < 0 && count > 0) {
        const auto box = Box<V>::read(anchors + a * 4, false);
        int32 object = 0;
        for (int64 j = 0; j < count; ++j) {
          const V common = Box<V>::read(objects + j * s.width + 1, false).overlap(box);
          if (common > most) {
            most = common;
            object = static_cast<int32>(j);
          }
        }
        own[a] = threshold > 0 && most > V(threshold) ? object : ratio > 0 ? kIgnored : kBackground;
      }
      const bool candidate = own[a] < 0 && count > 0 && most < V(limit);
      positives += own[a] >= 0;
      candidates += candidate;
      if (ratio > 0) {
        const T* first = predicted + image * s.classes * s.anchors + a;
        keys[image * s.anchors + a] = candidate ? background<V>(first, s.classes, s.anchors) : infinity<V>();
      }
    }
    if (ratio > 0) {
      positives = block::sum(positives);
      candidates = block::sum(candidates);
      const double many = double(positives) * ratio, rest = double(s.anchors - positives);
      const int64 wanted = static_cast<int64>(many < rest ? many : rest);
      if (threadIdx.x == 0) mined[image] = static_cast<int32>(wanted < candidates ? wanted : candidates);
    }
    __syncthreads();
  }
}

// The first of the sorted candidates are background.
__device__ inline void mine(const int32* order, const int32* mined, int32* matched, const Images& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.batch * s.anchors; i += step) {
    const int64 image = i / s.anchors;
    if (i % s.anchors < mined[image]) matched[image * s.anchors + order[i]] = kBackground;
  }
}

template <class V, class T>
__device__ inline void targets(const T* anchors, const T* labels, const int32* matched, T* location,
                               int location_request, T* mask, int mask_request, T* classes, int class_request,
                               double ignored, double v0, double v1, double v2, double v3, const Images& s) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < s.batch * s.anchors; i += step) {
    const int32 object = matched[i];
    V kind = object == kIgnored ? V(ignored) : V(0), x = 0, y = 0, w = 0, h = 0;
    if (object >= 0) {
      const T* row = labels + (i / s.anchors * s.objects + object) * s.width;
      const auto box = Box<V>::read(row + 1, false), anchor = Box<V>::read(anchors + i % s.anchors * 4, false);
      const V width = anchor.x1 - anchor.x0, height = anchor.y1 - anchor.y0;
      kind = convert<V>(row[0]) + V(1);
      x = ((box.x0 + box.x1) / 2 - (anchor.x0 + anchor.x1) / 2) / width / V(v0);
      y = ((box.y0 + box.y1) / 2 - (anchor.y0 + anchor.y1) / 2) / height / V(v1);
      w = log((box.x1 - box.x0) / width) / V(v2);
      h = log((box.y1 - box.y0) / height) / V(v3);
    }
    store(location, i * 4, location_request, x);
    store(location, i * 4 + 1, location_request, y);
    store(location, i * 4 + 2, location_request, w);
    store(location, i * 4 + 3, location_request, h);
    for (int k = 0; k < 4; ++k) store(mask, i * 4 + k, mask_request, object >= 0 ? V(1) : V(0));
    store(classes, i, class_request, kind);
  }
}

// ---- detections: rows (class, probability, box) ----

constexpr int64 kRow = 6;

struct Detections {
  int64 batch, classes, anchors, clip, force, most, suppresses;

  // How many of the best rows compete.
  __device__ int64 limit() const { return most > 0 && most < anchors ? most : anchors; }
};

// The row of every anchor, and what it is sorted by, which is no number if it is none of the detections.  `keeps`: the
// same for the order of the anchors.
template <class V, class T>
__device__ inline void decode(const T* prob, const T* offsets, const T* anchors, V* rows, V* keys, V* keeps,
                              double threshold, double v0, double v1, double v2, double v3, const Detections& d) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < d.batch * d.anchors; i += step) {
    const T* own = prob + i / d.anchors * d.classes * d.anchors + i % d.anchors;
    V score = convert<V>(own[d.anchors]);
    int64 best = 0;
    for (int64 c = 2; c < d.classes; ++c) {
      const V other = convert<V>(own[c * d.anchors]);
      if (other > score || (other != other && score == score)) {
        score = other;
        best = c - 1;
      }
    }
    const bool valid = score >= V(threshold);
    const auto anchor = Box<V>::read(anchors + i % d.anchors * 4, false);
    const V width = anchor.x1 - anchor.x0, height = anchor.y1 - anchor.y0;
    const V x = convert<V>(offsets[i * 4]) * V(v0) * width + (anchor.x0 + anchor.x1) / 2;
    const V y = convert<V>(offsets[i * 4 + 1]) * V(v1) * height + (anchor.y0 + anchor.y1) / 2;
    const V half_x = exp(convert<V>(offsets[i * 4 + 2]) * V(v2)) * width / 2;
    const V half_y = exp(convert<V>(offsets[i * 4 + 3]) * V(v3)) * height / 2;
    const auto put = [&](int64 k, V value) { rows[i * kRow + k] = d.clip != 0 ? cut(value) : value; };
    rows[i * kRow] = V(best);
    rows[i * kRow + 1] = score;
    put(2, x - half_x);
    put(3, y - half_y);
    put(4, x + half_x);
    put(5, y + half_y);
    keeps[i] = valid ? V(0) : not_a_number<V>();
    if (d.suppresses != 0) keys[i] = valid ? score : not_a_number<V>();
  }
}

// A block per image; `alive` tells of the sorted rows which survive.
template <class V>
__device__ inline void suppress(const V* rows, const V* keys, const int32* order, int32* alive, double threshold,
                                const Detections& d) {
  const int64 limit = d.limit();
  for (int64 image = blockIdx.x; image < d.batch; image += gridDim.x) {
    const V *own = rows + image * d.anchors * kRow, *key = keys + image * d.anchors;
    const int32* sorted = order + image * d.anchors;
    int32* lives = alive + image * d.anchors;
    for (int64 i = threadIdx.x; i < d.anchors; i += blockDim.x) lives[i] = 1;
    __syncthreads();
    for (int64 i = 0; i < limit; ++i) {
      const V* best = own + sorted[i] * kRow;
      if (key[sorted[i]] != key[sorted[i]]) break;
      if (lives[i] == 0) continue;  // nobody writes it any more
      const auto box = Box<V>::read(best + 2, false);
      for (int64 j = i + 1 + threadIdx.x; j < limit; j += blockDim.x) {
        const V* other = own + sorted[j] * kRow;
        if (lives[j] == 0 || (d.force == 0 && other[0] != best[0])) continue;
        if (box.overlap(Box<V>::read(other + 2, false)) >= V(threshold)) lives[j] = 0;
      }
      __syncthreads();
    }
    __syncthreads();
  }
}

// Sorted rows, then those that did not compete, in the order of the anchors.
template <class V, class T>
__device__ inline void detections(const V* rows, const V* keeps, const int32* order, const int32* alive,
                                  const int32* others, T* y, int request, const Detections& d) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < d.batch * d.anchors; i += step) {
    const bool competes = d.suppresses != 0 && i % d.anchors < d.limit();
    const int64 at = i / d.anchors * d.anchors + (d.suppresses == 0 || competes ? order[i] : others[i]);
    const bool valid = keeps[at] == keeps[at], named = d.suppresses == 0 || (competes && alive[i] != 0);
    for (int64 k = 0; k < kRow; ++k) {
      store(y, i * kRow + k, request, valid && (k > 0 || named) ? rows[at * kRow + k] : V(-1));
    }
  }
}

// ---- pairs of rows and columns ----

// What pairs are sorted by; pairs that are not good enough are no numbers.
template <class V, class T>
__device__ inline void good(const T* x, V* keys, double threshold, int64 ascending, int64 n) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const V score = convert<V>(x[i]);
    keys[i] = (ascending != 0 ? score < V(threshold) : score > V(threshold)) ? score : not_a_number<V>();
  }
}

// A block per matrix: many threads look which pairs are free, one takes them in their order.
template <class V>
__device__ inline void pair(const V* keys, const int32* order, int32* by_row, int32* by_column, int64 most,
                            int64 batch, int64 rows, int64 columns) {
  __shared__ int32 open[block::kMost];
  __shared__ int64 left;
  const int64 n = rows * columns;
  for (int64 b = blockIdx.x; b < batch; b += gridDim.x) {
    const V* key = keys + b * n;
    const int32* sorted = order + b * n;
    int32 *across = by_row + b * rows, *down = by_column + b * columns;
    for (int64 i = threadIdx.x; i < rows; i += blockDim.x) across[i] = -1;
    for (int64 i = threadIdx.x; i < columns; i += blockDim.x) down[i] = -1;
    if (threadIdx.x == 0) left = most;
    __syncthreads();
    for (int64 first = 0; first < n; first += blockDim.x) {
      const int64 i = first + threadIdx.x;
      const int32 at = i < n ? sorted[i] : 0;
      const bool is_open = i < n && key[at] == key[at] && across[at / columns] < 0 && down[at % columns] < 0;
      open[threadIdx.x] = is_open ? at : -1;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (unsigned k = 0; k < blockDim.x && left > 0; ++k) {
          if (open[k] < 0) continue;
          const int64 row = open[k] / columns, column = open[k] % columns;
          if (across[row] >= 0 || down[column] >= 0) continue;
          across[row] = static_cast<int32>(column);
          down[column] = static_cast<int32>(row);
          --left;
        }
      }
      __syncthreads();
      if (left == 0 || key[sorted[first]] != key[sorted[first]]) break;
    }
    __syncthreads();
  }
}

template <class V, class T> __device__ inline void numbers(const int32* x, T* y, int request, int64 n) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) store(y, i, request, V(x[i]));
}

}  // namespace detectors
}  // namespace mx
