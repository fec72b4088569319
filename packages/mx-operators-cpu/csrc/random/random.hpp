// SPDX-License-Identifier: Apache-2.0
//
// Random numbers, the same as mx_core.philox makes whatever the number of threads.
#pragma once

#include <cstdio>
#include <string>

#include "common/plan.hpp"

namespace mx::cpu {

// A number for a message.
inline std::string shown(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

enum class Distribution : uint8_t {
  kUniform,      // scalars low, high
  kNormal,       // scalars loc, scale
  kExponential,  // scalar lam
  kIntegers      // low, high fixed
};

struct RandomOptions {
  std::string op;  // for messages
  Distribution distribution;
  int64_t low = 0, high = 0;
  uint64_t blocks;  // counters that a run takes
};

PlanPtr make_random_plan(std::vector<Spec> inputs, std::vector<Spec> outputs,
                         const RandomOptions& options);

// Outputs: data times mask, and mask, which is 0 with probability p and 1 / (1 - p) otherwise;
// 1 everywhere when not active.
PlanPtr make_dropout_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, double p,
                          bool active, uint64_t blocks);

}  // namespace mx::cpu
