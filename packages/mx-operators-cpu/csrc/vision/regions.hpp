// SPDX-License-Identifier: Apache-2.0
//
// Regions of feature maps (N, C, H, W): means of bilinear samples, maxima and means of windows.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

struct RegionOptions {
  int64_t height, width;  // bins of a region
  double scale;           // of the map to the image
};

struct AlignOptions {
  RegionOptions region;
  int64_t samples;  // per bin and axis; not above 0: one per element
  bool sensitive;   // every bin has channels of its own
  bool aligned;     // centres of pixels lie at one half
};

// data (N, C, H, W), regions (R, 5) -> (R, C, height, width), or with C / bins channels.
PlanPtr make_roi_align_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const AlignOptions& options);
// out-gradient, data (only its shape), regions -> gradient of data.
PlanPtr make_roi_align_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                     const AlignOptions& options);

// data, regions -> maxima, their places in the map as int32 (-1: an empty window).
PlanPtr make_roi_pooling_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& options);
// out-gradient, data (only its shape), regions, places -> gradient of data.
PlanPtr make_roi_pooling_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                       const RegionOptions& options);

// data, regions (R, 6) rotated by an angle -> means of bilinear samples.
PlanPtr make_rotated_align_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region,
                               int64_t samples);
// out-gradient, data (only its shape), regions -> gradient of data.
PlanPtr make_rotated_align_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                        const RegionOptions& region, int64_t samples);

// data (N, D * groups * groups, H, W), regions -> means (R, D, bins, bins): every bin reads the
// channels of its group.
PlanPtr make_psroi_pooling_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RegionOptions& region,
                                    int64_t groups);
// out-gradient, data (only its shape), regions -> gradient of data.
PlanPtr make_psroi_pooling_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                             const RegionOptions& region, int64_t groups);

}  // namespace mx::cpu
