// SPDX-License-Identifier: Apache-2.0
//
// Region proposals: anchors moved by offsets, the best of which are kept.  A thread per anchor, a block per image for
// what is suppressed, a thread per result.  No kernel can raise an error about a value it reads: of an image whose
// extents are no numbers all boxes count as worst.
//
// Source: Ren et al., Faster R-CNN, NIPS 2015.
#pragma once

#include "mx_operators_cuda/elementwise.cuh"

namespace mx {
namespace proposals {

struct Maps {
  int64 images, anchors, height, width, stride, by_corners;

  __device__ int64 boxes() const { return anchors * height * width; }
  // How many rows (columns) lie inside an image; counted from the end where that is below 0.
  __device__ int64 inside(double extent, int64 size) const {
    double whole = ::trunc(extent / double(stride));
    if (whole != whole) whole = 0;
    whole = ::fmin(::fmax(whole, -double(size)), double(size));
    return whole < 0 ? size + static_cast<int64>(whole) : static_cast<int64>(whole);
  }
};

// One side of a box: its two ends in the image.
struct Side {
  double low, high;

  template <class V, class T>
  __device__ Side(double begin, double end, T move, T grow, double last, bool by_corners, V) : low(begin), high(end) {
    if (by_corners) {
      low += convert<double>(move);
      high += convert<double>(grow);
    } else {
      const double side = end - begin + 1, middle = begin + (side - 1) / 2 + convert<double>(move) * side;
      const double half = (double(exp(convert<V>(grow))) * side - 1) / 2;
      low = middle - half;
      high = middle + half;
    }
    low = limited(low, last);
    high = limited(high, last);
  }
  // What is no number stays.
  __device__ static double limited(double x, double last) {
    x = x < 0 ? 0 : x;
    return x > last ? last : x;
  }
  __device__ double size() const { return high - low + 1; }
};

// Boxes and scores of one anchor at every position; a box has its place in the order of rows, columns, anchors.
template <class V, class T>
__device__ inline void place(const T* scores, const T* offsets, const T* info, double* made, V* score, int64 anchor,
                             double x0, double y0, double x1, double y1, double least_size, const Maps& m) {
  const int64 area = m.height * m.width, step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < m.images * area; i += step) {
    const int64 image = i / area, at = i % area, row = at / m.width, column = at % m.width;
    const T *size = info + image * 3, *moves = offsets + (image * m.anchors + anchor) * 4 * area + at;
    const double right = double(column * m.stride), down = double(row * m.stride);
    const V height = convert<V>(size[0]), width = convert<V>(size[1]);
    const double least = double(V(least_size) * convert<V>(size[2]));
    Side x(x0 + right, x1 + right, moves[0], moves[2 * area], double(width - 1), m.by_corners != 0, V());
    Side y(y0 + down, y1 + down, moves[area], moves[3 * area], double(height - 1), m.by_corners != 0, V());
    const bool small = x.size() < least || y.size() < least;
    const bool beyond = row >= m.inside(double(height), m.height) || column >= m.inside(double(width), m.width);
    const int64 to = image * m.boxes() + at * m.anchors + anchor;
    score[to] = small || beyond ? V(-1) : convert<V>(scores[((2 * image + 1) * m.anchors + anchor) * area + at]);
    const double grown = small ? least / 2 : 0;
    made[4 * to] = x.low - grown;
    made[4 * to + 1] = y.low - grown;
    made[4 * to + 2] = x.high + grown;
    made[4 * to + 3] = y.high + grown;
  }
}

// A block per image: the places, in the order of scores, of the best boxes of which none overlaps a better one by more
// than the threshold, and how many they are.
__device__ inline void keep(const double* made, const int32* order, int32* gone, int32* kept, int32* count,
                            double threshold, int64 considered, int64 most, const Maps& m) {
  const int64 n = m.boxes();
  for (int64 image = blockIdx.x; image < m.images; image += gridDim.x) {
    const double* boxes = made + image * n * 4;
    const int32* sorted = order + image * n;
    int32 *falls = gone + image * n, *chosen = kept + image * most, found = 0;
    for (int64 i = threadIdx.x; i < considered; i += blockDim.x) falls[i] = 0;
    __syncthreads();
    for (int64 i = 0; i < considered && found < most; ++i) {
      if (falls[i] != 0) continue;  // nobody writes it any more
      const double* a = boxes + 4 * sorted[i];
      if (threadIdx.x == 0) chosen[found] = sorted[i];
      ++found;
      const double area = (a[2] - a[0] + 1) * (a[3] - a[1] + 1);
      for (int64 j = i + 1 + threadIdx.x; j < considered; j += blockDim.x) {
        const double* b = boxes + 4 * sorted[j];
        const double width = ::fmin(a[2], b[2]) - ::fmax(a[0], b[0]) + 1;
        const double height = ::fmin(a[3], b[3]) - ::fmax(a[1], b[1]) + 1;
        const double common = ::fmax(width, 0.0) * ::fmax(height, 0.0);
        const double other = (b[2] - b[0] + 1) * (b[3] - b[1] + 1);
        if (common / (area + other - common) > threshold) falls[j] = 1;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) count[image] = found;
    __syncthreads();
  }
}

// Rows (image, box), of which the kept ones are repeated, and their scores.
template <class V, class T>
__device__ inline void rows(const double* made, const V* score, const int32* kept, const int32* count, T* y,
                            int request, T* scores, int score_request, int64 most, const Maps& m) {
  const int64 step = int64(gridDim.x) * blockDim.x;
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < m.images * most; i += step) {
    const int64 image = i / most, at = image * m.boxes() + kept[image * most + i % most % count[image]];
    store(scores, i, score_request, score[at]);
    store(y, i * 5, request, V(image));
    for (int64 k = 0; k < 4; ++k) store(y, i * 5 + 1 + k, request, static_cast<V>(made[4 * at + k]));
  }
}

}  // namespace proposals
}  // namespace mx
