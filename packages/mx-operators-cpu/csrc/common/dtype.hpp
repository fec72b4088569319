// SPDX-License-Identifier: Apache-2.0
//
// Element types as the loops see them: the four compute types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mx_core/half.hpp"
#include "mx_core/types.hpp"

namespace mx::cpu {

constexpr int kDtypes = 13;  // MX_FLOAT32 .. MX_BFLOAT16; complex types have no loops here

struct Bool {
  uint8_t byte;
};

enum Compute : uint8_t { F32, F64, I32, I64, kComputeTypes };

constexpr int kStorageOf[kComputeTypes] = {MX_FLOAT32, MX_FLOAT64, MX_INT32, MX_INT64};

template <class T> struct ComputeOf;
template <> struct ComputeOf<float> { static constexpr Compute code = F32; };
template <> struct ComputeOf<double> { static constexpr Compute code = F64; };
template <> struct ComputeOf<int32_t> { static constexpr Compute code = I32; };
template <> struct ComputeOf<int64_t> { static constexpr Compute code = I64; };

inline bool known(int dtype) { return dtype >= 0 && dtype < kDtypes; }

// The type a reduction or an update of this storage type computes in.
inline Compute compute_of(int dtype) {
  switch (dtype) {
    case MX_FLOAT64:
      return F64;
    case MX_FLOAT32:
    case MX_FLOAT16:
    case MX_BFLOAT16:
      return F32;
    case MX_INT64:
    case MX_UINT32:
    case MX_UINT64:
      return I64;
    default:
      return I32;
  }
}

}  // namespace mx::cpu
