// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "common/clones.h"
#include "common/lanes.h"
#include "common/math32.h"
#include "common/math64.h"
#include "elementwise/special_functions.h"
#include "mx_core/expression.h"
#include "simd/loops.h"

#if defined(__x86_64__)
#pragma GCC target("sse4.2,ssse3,popcnt")
#endif
#define MX_ISA baseline
#define MX_VECTOR 128
#include "simd/loops_impl.h"

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
