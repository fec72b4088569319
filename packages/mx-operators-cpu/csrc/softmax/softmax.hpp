// SPDX-License-Identifier: Apache-2.0
//
// Softmax, cross entropy over it, and their gradients.
// They throw Unsupported (or dnnl::error) when another candidate should be asked.
#pragma once

#include "common/shape.hpp"
#include "common/plan.hpp"

namespace mx::cpu {

struct SoftmaxOptions {
  Dims view;  // the shape the axis refers to
  int axis = -1;
  bool logarithm = false;
  double temperature = 1;
};
// data -> output; extra inputs (a label) are not read
PlanPtr softmax(const Signature& signature, const SoftmaxOptions& options);
// out_grad, output -> data_grad
PlanPtr softmax_backward(const Signature& signature, const SoftmaxOptions& options);

// data, label -> loss: the sum of the rows' -log softmax at their labels
PlanPtr cross_entropy(const Signature& signature);
// out_grad, data, label -> data_grad
PlanPtr cross_entropy_backward(const Signature& signature);

// data, label -> the rows' log softmax at their labels, the probabilities: float32 or float64, and labels of any real
// type, which are clipped
PlanPtr picked_softmax(const Signature& signature);
// out_grad, label, probabilities -> data_grad
PlanPtr picked_softmax_backward(const Signature& signature);

enum class Normalization { none, batch, valid };

struct SoftmaxOutputOptions {
  int64_t rows = 1, classes = 1, inner = 1;  // output seen as (rows, classes, inner)
  double smooth_alpha = 0;
  bool use_ignore = false, label_is_distribution = false;
  Normalization normalization = Normalization::none;
};
// label, output -> data_grad; run-time scalars grad_scale, ignore_label
PlanPtr softmax_output_backward(const Signature& signature, const SoftmaxOutputOptions& options);

}  // namespace mx::cpu
