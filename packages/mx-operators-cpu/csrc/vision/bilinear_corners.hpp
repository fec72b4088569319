// SPDX-License-Identifier: Apache-2.0
//
// Points between the pixels of an image: where their four neighbours are, and with which weights.
#pragma once

#include <cstdint>

namespace mx::cpu {

constexpr int64_t kPoints = 256;  // points looked at together

template <class T>
struct Corners {
  int32_t place[4][kPoints];  // of the four corners; 0 outside the image
  T weight[4][kPoints];       // 0 outside
  T by_x[4][kPoints], by_y[4][kPoints];  // derivatives of the weights
};

// to[i] = the image at point i.
void gather_points(float* to, const float* image, const Corners<float>& corners, int64_t n);
void gather_points(double* to, const double* image, const Corners<double>& corners, int64_t n);

// Point by point, each value is shared among the point's corners.
template <class T>
void scatter_points(T* image, const T* values, const Corners<T>& corners, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int k = 0; k < 4; ++k) image[corners.place[k][i]] += corners.weight[k][i] * values[i];
}

// sums[k][i] += value i times what corner k of point i holds.
template <class T>
void correlate_points(T (&sums)[4][kPoints], const T* image, const T* values, const Corners<T>& corners, int64_t n) {
  for (int k = 0; k < 4; ++k)
    for (int64_t i = 0; i < n; ++i) sums[k][i] += image[corners.place[k][i]] * values[i];
}

}  // namespace mx::cpu
