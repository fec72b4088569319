// SPDX-License-Identifier: Apache-2.0
//
// Region proposals of Faster R-CNN.
#pragma once

#include <array>
#include <string>

#include "common/plan.hpp"

namespace mx::cpu {

struct ProposalOptions {
  std::vector<std::array<double, 4>> anchors;  // of the first position: corners in pixels
  int64_t stride;                              // pixels per position
  int64_t considered;                          // of the best boxes; not above 0: all
  int64_t returned;
  double threshold, least_size;
  bool by_corners;  // offsets are those of corners
  std::string name;  // of the operator, for errors
};

// probabilities (B, 2A, H, W), offsets (B, 4A, H, W), images' height, width and scale (B, 3)
// -> boxes (B * returned, 5), their scores.
PlanPtr make_proposal_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, ProposalOptions options);

}  // namespace mx::cpu
