// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mx::cpu {

// First tries of n <= kTries gamma numbers of a shape not below 1: a number where the try is accepted without a
// look at logarithms, else -1.  A try takes a block of Philox words for its normal number and one
// for its uniform number.
constexpr int64_t kTries = 512;
void gamma_tries(const uint32_t* normal_words, const uint32_t* uniform_words, double shape, double* values, int64_t n);

}  // namespace mx::cpu
