// SPDX-License-Identifier: Apache-2.0
//
// Asks a C kernel table for a plan.  Owns the texts a signature points to while
// `prepare` runs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mx_core/kernel.h"

namespace mx::core {

struct TensorSpec {
  std::vector<int64_t> shape;
  int32_t dtype;
};

struct Call {
  std::string op;
  std::vector<std::pair<std::string, std::string>> params;  // name, text
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  mx_context context;
  bool is_train;
};

// The plan, with one reference for the caller, or null when the table declines.
// Throws mx::Error for a failure, for a shape of too many axes, and for a plan this side was not
// built for.
mx_plan* prepare(const mx_kernel_api& table, const Call& call);

// Throws mx::Error unless the table's head and functions are ones this side can use.
void check_kernel_table(const mx_kernel_api& table);

// Throws mx::Error unless the plan's head and functions are ones this side can use.
void check_plan(const mx_plan& plan);

// The number a text is, all of it, as a double.
bool parse_number(const std::string& text, double* number);

}  // namespace mx::core
