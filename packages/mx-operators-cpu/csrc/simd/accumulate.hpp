// SPDX-License-Identifier: Apache-2.0
//
// Sums of arrays in their element type.
#pragma once

#include <cstdint>

namespace mx::cpu {

// out[i] += in[i], on the calling thread; 16-bit floats in float32.
void accumulate(int dtype, char* out, const char* in, int64_t n);

}  // namespace mx::cpu
