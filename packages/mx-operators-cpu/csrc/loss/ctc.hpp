// SPDX-License-Identifier: Apache-2.0
//
// Connectionist temporal classification.
#pragma once

#include <optional>

#include "common/plan.hpp"

namespace mx::cpu {

struct CtcOptions {
  bool blank_first;  // blank is class 0 and padding 0; else blank is the last class and padding -1
  std::optional<uint32_t> data_lengths, label_lengths;  // inputs
};

// data (T, N, C), label (N, L), lengths (N,) -> losses (N,), their slopes by data (T, N, C).
PlanPtr make_ctc_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const CtcOptions& options);

}  // namespace mx::cpu
