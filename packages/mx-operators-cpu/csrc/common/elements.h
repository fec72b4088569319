// SPDX-License-Identifier: Apache-2.0
//
// Elements of float32 and bfloat16 arrays as floats.
#pragma once

#include <cstdint>

#include "common/clones.h"
#include "mx_core/half.hpp"

namespace mx::cpu {

template <class T>
MX_INLINE float get(const T* p, int64_t j) {
  return float(p[j]);
}
template <class T>
MX_INLINE void put(T* p, int64_t j, float x) {
  p[j] = T(x);
}

}  // namespace mx::cpu
