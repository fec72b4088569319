// SPDX-License-Identifier: Apache-2.0
//
// What kernels over regions of maps (N, C, H, W) share: extents, the image of a region, points between elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/scratch.hpp"
#include "common/upcast.hpp"
#include "vision/regions.hpp"

namespace mx::cpu {

// A point of an axis between two elements.
struct BilinearPoint {
  int64_t low, high;
  double share;  // of the element at `high`
};

// Whether an axis has the point: it ends an element beyond its outermost ones, whose values reach that far.
inline bool bilinear_point(double x, int64_t extent, BilinearPoint* point) {
  if (!(x >= -1 && x <= static_cast<double>(extent))) return false;
  const double inside = std::clamp(x, 0.0, static_cast<double>(extent - 1));
  point->low = static_cast<int64_t>(inside);
  point->high = std::min(point->low + 1, extent - 1);
  point->share = inside - static_cast<double>(point->low);
  return true;
}

// To the nearest whole number, halves away from zero.
inline double rounded(double x) { return std::copysign(std::floor(std::fabs(x) + 0.5), x); }

class RegionPlan : public UpcastPlan {
 protected:
  // `op`: for errors.  `data`, `result`: the specs of the maps and of what the bins hold.
  RegionPlan(const std::vector<Spec>& inputs, const std::vector<Spec>& outputs, std::string op, const Spec& data,
             const Spec& result, const RegionOptions& region)
      : UpcastPlan(inputs, outputs, data.dtype, 16 * result.size()),
        op_(std::move(op)),
        region_(region),
        images_(data.shape[0]),
        channels_(data.shape[1]),
        height_(data.shape[2]),
        width_(data.shape[3]),
        regions_(result.shape[0]),
        made_(result.shape[1]) {}

  int64_t bins() const { return region_.height * region_.width; }
  int64_t area() const { return height_ * width_; }

  // The image that a region's first number names; -1 where it is -1 or below, a region of padding.
  int64_t image_or_padding(double image) const {
    if (image <= -1) return -1;
    return image_of(image);
  }
  // Errors: MX_ERROR_INDEX for what is no image.
  int64_t image_of(double image) const {
    if (!(image > -1 && image < static_cast<double>(images_)))
      refuse_region(MX_ERROR_INDEX, "expected images 0 to " + std::to_string(images_ - 1) + ", got " +
                                        std::to_string(image));
    return static_cast<int64_t>(image);
  }
  [[noreturn]] void refuse_region(mx_status status, const std::string& why) const {
    throw Error(status, "[" + op_ + "] rois: " + why);
  }

  const std::string op_;
  const RegionOptions region_;
  const int64_t images_, channels_, height_, width_, regions_;
  const int64_t made_;  // channels of the result
};

}  // namespace mx::cpu
