// SPDX-License-Identifier: Apache-2.0
//
// Copies between strided views: transposes, slices, joins, splits, repeats, pads and their like.
#pragma once

#include <optional>

#include "common/plan.hpp"

namespace mx::cpu {

// Copies an element of input view for every index of `sizes`; strides and offsets in elements.
struct Move {
  uint32_t input, output;
  Shape sizes;
  Shape from, to;  // strides
  int64_t from_offset, to_offset;
  std::optional<uint32_t> scalar = std::nullopt;  // this run-time scalar is written instead; strides from are 0
};

// What an output holds where nothing is moved: a constant, or run-time scalar `scalar`.
struct FillValue {
  uint32_t output;
  double number;
  std::optional<uint32_t> scalar;
};

// Backgrounds are painted first, then moves happen in order.  Throws mx::Error(MX_ERROR_SHAPE) for
// a move that leaves its arrays.
PlanPtr make_move_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Move> moves,
                       std::vector<FillValue> fill_values, uint32_t n_scalars);

}  // namespace mx::cpu
