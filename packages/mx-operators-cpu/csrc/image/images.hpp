// SPDX-License-Identifier: Apache-2.0
//
// Images (…, height, width, channels) on their way into a network.
#pragma once

#include "common/plan.hpp"
#include "image/resample.hpp"

namespace mx::cpu {

// (…, height, width, channels) of 0 to 255 -> (…, channels, height, width) of 0 to 1.
PlanPtr make_to_tensor_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);

// (data - mean[c]) / deviation[c] over images (…, channels, area).
PlanPtr make_normalize_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<double> mean,
                            std::vector<double> deviation);

// Slices (outer, extent, inner) reversed along the middle axis; if `random`, in half the cases.
PlanPtr make_flip_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t extent, int64_t inner, bool random);

// How sums of weighted pixels become pixels.
enum class Rounding {
  kNone,    // they are; integers are rounded to even and cut to their range
  kFixed,   // 8 bits, weights in multiples of 2^-11
  kPaired,  // the same with one or two rows per result, whose sums lose bits row by row
};

// rows · image · columnsᵀ of every channel of images (…, height, width, channels).
PlanPtr make_image_resize_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, Mixing rows, Mixing columns,
                               Rounding rounding);

// The same, `kPaired`: two rows, one column or two neighbours for each of the result.
PlanPtr make_paired_resize_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Mixing& rows,
                                const Mixing& columns);

}  // namespace mx::cpu
