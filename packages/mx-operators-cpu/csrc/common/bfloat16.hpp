// SPDX-License-Identifier: Apache-2.0
//
// Runs of elements in another type.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "mx_core/half.hpp"

namespace mx::cpu {

void widen(const BFloat16* x, float* y, int64_t n);
// y = x * factor
void round(const float* x, BFloat16* y, int64_t n, float factor = 1);

// On the calling thread.
template <class From, class To>
void convert(const From* x, To* y, int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    std::copy_n(x, n, y);
  } else if constexpr (std::is_same_v<To, float>) {
    widen(x, y, n);
  } else {
    round(x, y, n);
  }
}

}  // namespace mx::cpu
