// SPDX-License-Identifier: Apache-2.0
//
// Strided views of tensors, and the plans that copy between them.
#pragma once

#include <vector>

#include "indexing/strided_copy.hpp"

namespace mx::cpu {

// Elements of an axis: `count` of them from `start` on, `step` apart.
struct Cut {
  int64_t start, step, count;
};

// Where the elements of an array are: sizes and strides per axis, an offset, all in elements.  Axes count from the end
// where they are negative.  Every function throws Error for axes that are not there and addresses that do not fit.
struct View {
  Shape shape;
  Shape strides;
  int64_t offset = 0;

  // A whole row-major tensor.
  static View of(Shape shape);
  View permuted(const Shape& order) const;
  View part(int64_t axis, const Cut& cut) const;
  // Axes of extent 1 repeated, axes added in front.
  View broadcast(const Shape& wanted) const;
  // An axis of extent 1 left out.
  View without(int64_t axis) const;
};

// What is copied where an array is cut.
enum class CutAction : uint8_t {
  kTake,    // the part, as the output
  kPut,     // the input, into the part of zeros
  kAssign,  // the second input, into the part of the first
  kFill,    // run-time scalar 0, into the part of the input
};

// Throw Error for signatures that do not fit, Unsupported for element types that differ.
PlanPtr make_join_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t axis, bool new_axis);
PlanPtr make_split_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t axis, bool without_axis);
PlanPtr make_permute_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Shape& order);
// `shape`: that of the input, or another one for its elements.
PlanPtr make_broadcast_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const Shape& shape);
// `cuts`: of the leading axes.
PlanPtr make_cut_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const std::vector<Cut>& cuts,
                      CutAction action);
// What is cut in `make_cut_plan`.
const Spec& cut_tensor(const std::vector<Spec>& inputs, const std::vector<Spec>& outputs, CutAction action);

}  // namespace mx::cpu
