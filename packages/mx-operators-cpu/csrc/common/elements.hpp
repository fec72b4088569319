// SPDX-License-Identifier: Apache-2.0
//
// Elements of arrays as the numbers that loops compute with: doubles of float64, else floats.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/clones.hpp"
#include "mx_core/half.hpp"

namespace mx::cpu {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
MX_INLINE Wide<T> get(const T* p, int64_t j) {
  return Wide<T>(p[j]);
}
template <class T>
MX_INLINE void put(T* p, int64_t j, Wide<T> x) {
  p[j] = T(x);
}

}  // namespace mx::cpu
