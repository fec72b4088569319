// SPDX-License-Identifier: Apache-2.0
//
// Boxes: overlap, suppression, matching, and their description relative to anchors.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// lhs (n, 4), rhs (m, 4) -> intersection over union (n, m).
PlanPtr make_box_iou_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool center);

struct NmsOptions {
  double overlap, valid;
  int64_t topk, coordinates, score, id, background;  // id below 0: there is none
  bool force, center_in, center_out;
};

// data (batch, n, width) -> surviving rows, then rows of -1; and where they came from (batch, n).
PlanPtr make_box_nms_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const NmsOptions& options);

// Out-gradient (batch, n, width), source (batch, n) -> rows back where they came from.
PlanPtr make_box_nms_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);

// scores (batch, rows, columns) -> the column of each row, the row of each column; -1: none.
PlanPtr make_bipartite_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool ascending, double threshold,
                            int64_t topk);

// samples, matches (B, N), anchors (B, N, 4), refs (B, M, 4), means, stds (4,) -> targets, mask (B, N, 4).
PlanPtr make_box_encode_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);

// data (B, N, 4), anchors (N, 4) -> boxes; run-time scalars: four factors and the limit of growth.
PlanPtr make_box_decode_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool corner);

}  // namespace mx::cpu
