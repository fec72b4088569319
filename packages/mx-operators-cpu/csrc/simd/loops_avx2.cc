// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "common/clones.hpp"
#include "common/lanes.hpp"
#include "common/math32.hpp"
#include "common/math64.hpp"
#include "elementwise/special_functions.hpp"
#include "mx_core/expression.h"
#include "simd/loops.hpp"

#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt")
#define MX_ISA avx2
#define MX_VECTOR 256
#include "simd/loops_impl.hpp"

namespace mx::cpu {

const LoopTable& avx2_loops() {
  static const LoopTable* table = [] {
    auto* made = new LoopTable{};
    avx2::fill_table(*made, "avx2");
    return made;
  }();
  return *table;
}

}  // namespace mx::cpu
#endif
