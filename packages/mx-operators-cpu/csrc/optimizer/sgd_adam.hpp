// SPDX-License-Identifier: Apache-2.0
//
// Optimizer steps that most training runs take, of one weight or many, in float32.
#pragma once

#include <optional>

#include "common/plan.hpp"

namespace mx::cpu {

enum class UpdateRule {
  kSgd,       // settings: lr, wd, rescale_grad, clip_gradient
  kMomentum,  // and momentum; state: momentum
  kAdam,      // lr, wd, rescale_grad, clip_gradient, beta1, beta2, epsilon; states: mean, variance
  kAdamW,     // and eta; decay is apart from the gradient, and a scale of 0 or that is not finite leaves the step out
};

// A number, a run-time scalar, or an element of an input.
struct Setting {
  double number = 0;
  std::optional<uint32_t> scalar, input;
  uint32_t element = 0;
};

// The step of a weight: inputs `first` (weight), `first` + 1 (gradient), then states, which are
// written in place -> output `output`.
struct Update {
  uint32_t first, output;
  std::vector<Setting> settings;
};

// Weights are shared among threads, long ones in pieces.
PlanPtr make_update_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, UpdateRule rule,
                         std::vector<Update> updates, uint32_t n_scalars);

}  // namespace mx::cpu
