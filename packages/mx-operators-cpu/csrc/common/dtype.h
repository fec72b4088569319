// SPDX-License-Identifier: Apache-2.0
//
// Element types as the loops see them: sizes, the four compute types, 16-bit floats as bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mx_core/abi.h"

namespace mx::vector {

constexpr int kDtypes = 13;  // MX_FLOAT32 .. MX_BFLOAT16; complex types have no loops here

// 16-bit floats only exist in memory: loops convert them on the way in and out.
struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

enum Compute : uint8_t { F32, F64, I32, I64, kComputeTypes };

constexpr size_t kItemSize[kDtypes] = {4, 8, 2, 1, 4, 1, 8, 1, 2, 2, 4, 8, 2};
constexpr int kStorageOf[kComputeTypes] = {MX_FLOAT32, MX_FLOAT64, MX_INT32, MX_INT64};

inline bool known(int dtype) { return dtype >= 0 && dtype < kDtypes; }
inline size_t item_size(int dtype) { return kItemSize[dtype]; }

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

}  // namespace mx::vector
