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

template <class T>
constexpr int64_t kLanesOf = static_cast<int64_t>(LanesOf<T>::count);

// Sixteen floats.
constexpr int64_t kLanes = kLanesOf<float>;
typedef LanesOf<float>::Vector Lanes;

// Helpers of functions for AVX-512.  They are compiled for it, too: what is inlined was split for its own instruction
// set before, which is why other loops have helpers of theirs.
template <class T>
MX_AVX512_INLINE typename LanesOf<T>::Vector load(const T* p) {
  typename LanesOf<T>::Vector v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
MX_AVX512_INLINE void store(T* p, typename LanesOf<T>::Vector v) {
  __builtin_memcpy(p, &v, sizeof v);
}
template <class T>
MX_AVX512_INLINE typename LanesOf<T>::Vector spread(T x) {
  return x - typename LanesOf<T>::Vector{};
}

inline bool uses_avx512() { return instruction_set() == InstructionSet::avx512; }

}  // namespace mx::cpu
