// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)
#pragma GCC target("sse4.2,ssse3,popcnt")
#endif
#define MX_ISA baseline
#define MX_VECTOR 128
#include "simd/loops_impl.hpp"

namespace mx::cpu {

const LoopTable& baseline_loops() {
  static const LoopTable* table = [] {
    auto* made = new LoopTable{};
    baseline::fill_table(*made, "baseline");
    return made;
  }();
  return *table;
}

}  // namespace mx::cpu
