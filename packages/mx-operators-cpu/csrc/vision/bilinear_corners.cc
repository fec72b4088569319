// SPDX-License-Identifier: Apache-2.0
#include "vision/bilinear_corners.hpp"

#include "common/clones.hpp"

namespace mx::cpu {
namespace {

template <class T>
MX_INLINE void gather(T* to, const T* image, const Corners<T>& corners, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = corners.weight[0][i] * image[corners.place[0][i]] + corners.weight[1][i] * image[corners.place[1][i]] +
            corners.weight[2][i] * image[corners.place[2][i]] + corners.weight[3][i] * image[corners.place[3][i]];
}

MX_CLONES(void, gather_float, (float* __restrict to, const float* image, const Corners<float>& corners, int64_t n),
          (to, image, corners, n)) {
  gather(to, image, corners, n);
}

}  // namespace

void gather_points(float* to, const float* image, const Corners<float>& corners, int64_t n) {
  gather_float(to, image, corners, n);
}
void gather_points(double* to, const double* image, const Corners<double>& corners, int64_t n) {
  gather(to, image, corners, n);
}

}  // namespace mx::cpu
