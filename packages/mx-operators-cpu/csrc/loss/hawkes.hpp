// SPDX-License-Identifier: Apache-2.0
//
// Marked self-exciting point processes with exponential decay.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// background (N, K), branching (K), decay (K), state (N, K), lags (N, T), marks (N, T), lengths (N),
// end (N) -> log likelihood (N), state at the end (N, K).
PlanPtr make_hawkes_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);

// out-gradient (N), then the same inputs -> gradients of background, branching, decay.
PlanPtr make_hawkes_backward_plan(std::vector<Spec> inputs, std::vector<Spec> outputs);

}  // namespace mx::cpu
