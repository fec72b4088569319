// SPDX-License-Identifier: Apache-2.0
//
// Images (N, C, H, W) read between their pixels, at the points of grids (N, 2, H', W').
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// data, grid -> (N, C, H', W'); zero outside the image.
PlanPtr make_sampler_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);
// out-gradient, data, grid -> gradients of data and grid.
PlanPtr make_sampler_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);

// matrices (N, 2, 3) -> the points they map a regular grid to, (N, 2, height, width); and its gradient.
PlanPtr make_affine_grid_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);
PlanPtr make_affine_grid_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);
// displacements in pixels (N, 2, height, width) -> points; and its gradient.
PlanPtr make_warp_grid_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, bool backward);

}  // namespace mx::cpu
