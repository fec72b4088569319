// SPDX-License-Identifier: Apache-2.0
//
// Rows that are copied by a rule: sequences masked, cut and reversed by their lengths, rows shuffled.
#pragma once

#include <optional>

#include "common/plan.hpp"

namespace mx::cpu {

enum class RowRule : uint8_t {
  kMask,      // run-time scalar 0 after the end of a sequence
  kLast,      // (batch) rows: the last step of each sequence
  kSpread,    // its gradient: zero but at the last steps
  kReverse,   // back to front up to the end
  kShuffle    // one sequence, in the order of random keys
};

// Steps and batch are the leading axes of the sequences, `inner` the elements of a row.
struct RowOptions {
  std::string op;  // for messages
  RowRule rule;
  int64_t steps, batch, inner;
  bool batch_first = false;
  std::optional<uint32_t> lengths;  // the input with (batch) lengths; without, all are full
};

// Reads rows of input 0.
PlanPtr make_row_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const RowOptions& options);

}  // namespace mx::cpu
