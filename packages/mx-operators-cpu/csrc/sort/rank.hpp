// SPDX-License-Identifier: Apache-2.0
//
// Positions of elements in stable order.  Elements become unsigned keys whose order is the wanted one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/dtype.hpp"

namespace mx::cpu {

// Bytes of working memory for an axis of n elements of a type.
size_t rank_memory(int dtype, int64_t n);

// positions[i], i < k: where the i-th of n elements lies in `from`, `stride` elements apart; NaN last.
// `memory` is aligned to 64 bytes.
void rank(int dtype, const char* from, int64_t stride, int64_t n, int64_t k, bool ascending, char* memory,
          int64_t* positions);

}  // namespace mx::cpu
