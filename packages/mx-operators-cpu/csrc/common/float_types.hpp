// SPDX-License-Identifier: Apache-2.0
//
// Which floating-point types the tensors of a kernel have.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <vector>

#include "common/plan.hpp"

namespace mx::cpu {

// Whether tensors hold floats, else BFloat16; throws Unsupported where they differ.  `inputs_apart` and
// `outputs_apart` are float32 always.
inline bool all_float(const Signature& s, std::initializer_list<size_t> inputs_apart,
                      std::initializer_list<size_t> outputs_apart = {}) {
  const int32_t dtype = s.outputs[0].dtype;
  if (dtype != MX_FLOAT32 && dtype != MX_BFLOAT16) throw Unsupported{};
  const auto check = [dtype](const std::vector<Spec>& specs, std::initializer_list<size_t> apart) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const bool fixed = std::find(apart.begin(), apart.end(), i) != apart.end();
      if (specs[i].dtype != (fixed ? MX_FLOAT32 : dtype)) throw Unsupported{};
    }
  };
  check(s.inputs, inputs_apart);
  check(s.outputs, outputs_apart);
  return dtype == MX_FLOAT32;
}

// Whether all tensors hold float64, but for the input `apart`, if there is one: float32.
inline bool all_double(const Signature& s, size_t apart = std::numeric_limits<size_t>::max()) {
  for (size_t i = 0; i < s.inputs.size(); ++i)
    if (s.inputs[i].dtype != (i == apart ? MX_FLOAT32 : MX_FLOAT64)) return false;
  for (const Spec& spec : s.outputs)
    if (spec.dtype != MX_FLOAT64) return false;
  return true;
}

inline void require_double(const Signature& s) {
  if (!all_double(s)) throw Unsupported{};
}

}  // namespace mx::cpu
