// SPDX-License-Identifier: Apache-2.0
//
// Plans run one after the other as one plan, with temporary tensors between them.
#pragma once

#include <optional>

#include "common/plan.hpp"

namespace mx::cpu {

// A scalar that a part gets: a number, or a run-time scalar of the whole.
struct PartScalar {
  double number;
  std::optional<uint32_t> scalar;
};

// Tensors are numbered: inputs, then outputs, then temporaries.
struct Part {
  mx_plan* plan;  // borrowed; the composite keeps a reference of its own
  std::vector<uint32_t> inputs, outputs;
  std::vector<PartScalar> scalars;
  bool mutates = false;  // runs even if none of its outputs is wanted
};

// A part is left out when nothing that is wanted depends on it.  Outputs may not be read by parts.
// `blank`: tensors that parts are given although none has made them, because what they hold does not matter.
// Throws mx::Error(MX_ERROR_VALUE) for parts that name what does not exist or is not there yet.
PlanPtr make_composite_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, std::vector<Spec> temporaries,
                            std::vector<Part> parts, uint32_t n_scalars, const std::vector<uint32_t>& blank = {});

}  // namespace mx::cpu
