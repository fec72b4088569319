// SPDX-License-Identifier: Apache-2.0
#include "common/bfloat16.hpp"

#include "common/clones.hpp"
#include "common/elements.hpp"
#include "common/math32.hpp"

namespace mx::cpu {

MX_CLONES(void, widen, (const BFloat16* x, float* y, int64_t n), (x, y, n)) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = get(x, i);
}

MX_CLONES(void, round, (const float* x, BFloat16* y, int64_t n, float factor), (x, y, n, factor)) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) put(y, i, x[i] * factor);
}

}  // namespace mx::cpu
