// SPDX-License-Identifier: Apache-2.0
//
// Sixteen floats as one value. Functions that use them are compiled for AVX-512 and called only where the
// processor has it.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#define MX_AVX512 __attribute__((target("avx512f")))
#else
#define MX_AVX512
#endif
#define MX_AVX512_INLINE MX_AVX512 inline __attribute__((always_inline))

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are never passed: every helper is inlined

namespace mx::cpu {

constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef float LanesInMemory __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

MX_AVX512_INLINE Lanes load(const float* p) { return *reinterpret_cast<const LanesInMemory*>(p); }
MX_AVX512_INLINE void store(float* p, Lanes v) { *reinterpret_cast<LanesInMemory*>(p) = v; }
MX_AVX512_INLINE Lanes spread(float x) { return x - Lanes{}; }

inline bool processor_has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

}  // namespace mx::cpu
