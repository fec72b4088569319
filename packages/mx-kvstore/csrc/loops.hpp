// SPDX-License-Identifier: Apache-2.0
//
// The loops of stores over arrays in host memory; each function pushes one operation.
// Threads: any.  Errors: arrays that do not belong together, memory of a device; see `push`.
#pragma once

#include <cstdint>
#include <vector>

#include "codec.hpp"
#include "operation.hpp"

namespace mx::kv {

// targets = the sum of sources.  A target may be a source.
void push_sum(const Tables& tables, const std::vector<mx_array*>& sources, const std::vector<mx_array*>& targets,
              int32_t priority);

// codes, residual = what `compress` makes of gradient and residual; codes are float32 words.
void push_compress(const Tables& tables, Code code, float threshold, mx_array* gradient, mx_array* residual,
                   mx_array* codes, int32_t priority);

// target = the sum of the values of codes.
void push_expand(const Tables& tables, Code code, float threshold, const std::vector<mx_array*>& codes,
                 mx_array* target, int32_t priority);

}  // namespace mx::kv
