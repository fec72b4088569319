// SPDX-License-Identifier: Apache-2.0
//
// Random numbers by rejection, and of distributions whose parameters are arrays.  Every element has a
// counter of its own; its tries take branches of it.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

enum class Variate : uint8_t {
  kUniform,           // low, high
  kNormal,            // mean, deviation
  kExponential,       // rate
  kGamma,             // shape, scale
  kPoisson,           // rate
  kNegativeBinomial,  // successes, their probability
  kGeneralized        // mean, dispersion
};

struct VariateOptions {
  std::string op;  // for messages
  Variate variate;
  bool arrays;   // parameters are inputs, else run-time scalars
  int64_t each;  // numbers per element of the parameters
};

PlanPtr make_variate_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const VariateOptions& options);

// Weights (rows, classes), below 0 as 0 -> `each` classes per row, and the logarithms of their weights if there is a
// second output.
PlanPtr make_multinomial_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, int64_t each);

}  // namespace mx::cpu
