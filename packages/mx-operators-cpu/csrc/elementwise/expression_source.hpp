// SPDX-License-Identifier: Apache-2.0
//
// An expression as it was written down, and the functions found in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mx_core/expression.h"

namespace mx::cpu {

struct Source {
  mx_expression_head head;
  std::vector<double> constants;
  std::vector<mx_instruction> steps;
  std::vector<uint32_t> outputs;
  std::vector<bool> dropped;  // [step]: a fused function does without it
};

// Throws mx::Error (MX_ERROR_VALUE): [expression] and what is wrong with it.
[[noreturn]] void bad(const std::string& why);
uint32_t arity(uint16_t opcode);
Source parse(std::string_view bytes);
// Puts one instruction, kGelu, where several compute 0.5 x (1 + erf(x / sqrt 2)).
void fuse(Source& source);

}  // namespace mx::cpu
