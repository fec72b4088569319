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

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi,bmi2,lzcnt,prefer-vector-width=512")
#define MX_ISA avx512
#define MX_VECTOR 512
#include "simd/loops_impl.hpp"

namespace mx::cpu {

const LoopTable& avx512_loops() {
  static const LoopTable* table = [] {
    auto* made = new LoopTable{};
    avx512::fill_table(*made, "avx512");
    return made;
  }();
  return *table;
}

}  // namespace mx::cpu
#endif
