// SPDX-License-Identifier: Apache-2.0
//
// The single-shot detector: anchors, training targets, detections.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

struct PriorOptions {
  int64_t height, width;                   // of the feature map
  std::vector<double> half_x, half_y;      // half extents of the anchors of a position
  double step_y, step_x, offset_y, offset_x;
  bool clip;
};

// -> anchors (height, width, anchors, 4); the input is not read.
PlanPtr make_multibox_prior_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const PriorOptions& options);

struct TargetOptions {
  double overlap, ignored, mining_ratio, mining_overlap;
  std::vector<double> variances;  // 4
};

// anchors (1, A, 4), labels (B, M, 5 or more), predictions (B, classes, A) -> location targets and mask
// (B, 4 A), class targets (B, A).
PlanPtr make_multibox_target_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const TargetOptions& options);

struct DetectionOptions {
  double threshold, overlap;
  bool clip, force;
  int64_t topk;
  std::vector<double> variances;  // 4
};

// probabilities (B, classes, A), locations (B, 4 A), anchors (1, A, 4) -> (B, A, 6).
PlanPtr make_multibox_detection_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                                     const DetectionOptions& options);

}  // namespace mx::cpu
