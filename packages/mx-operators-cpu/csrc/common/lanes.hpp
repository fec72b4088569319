// SPDX-License-Identifier: Apache-2.0
//
// Some elements as one value: the vectors of all loops that are written with them.  Compilers split vectors that the
// instruction set is too narrow for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/clones.hpp"

#define MX_AVX512 MX_TARGET("avx512f")  // to be called only where `uses_avx512`
#define MX_AVX512_INLINE MX_AVX512 MX_INLINE

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are never passed: every helper is inlined

namespace mx::cpu {

template <class T, size_t kBytes = 64>
struct LanesOf {
  typedef T Vector __attribute__((vector_size(kBytes), may_alias));
  using Integer = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  typedef Integer Bits __attribute__((vector_size(kBytes), may_alias));
  static constexpr size_t count = kBytes / sizeof(T);
};

// Sixteen floats.
constexpr int64_t kLanes = 16;
typedef LanesOf<float>::Vector Lanes;
typedef float LanesInMemory __attribute__((vector_size(64), aligned(sizeof(float)), may_alias));

// Helpers of functions for AVX-512.  They are compiled for it, too: what is inlined was split for its own instruction
// set before, which is why other loops have helpers of theirs.
MX_AVX512_INLINE Lanes load(const float* p) { return *reinterpret_cast<const LanesInMemory*>(p); }
MX_AVX512_INLINE void store(float* p, Lanes v) { *reinterpret_cast<LanesInMemory*>(p) = v; }
MX_AVX512_INLINE Lanes spread(float x) { return x - Lanes{}; }

inline bool uses_avx512() { return instruction_set() == InstructionSet::avx512; }

}  // namespace mx::cpu
