// SPDX-License-Identifier: Apache-2.0
//
// The layout of DLPack 0.x tensors (https://dmlc.github.io/dlpack) and how types map.
#pragma once

#include <cstdint>

#include "mx_core/failure.hpp"

namespace mx::nd {

constexpr int32_t kDLCPU = 1;
constexpr int32_t kDLCUDA = 2;
constexpr int32_t kDLCUDAHost = 3;

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool
  uint8_t bits;
  uint16_t lanes;
  bool operator==(const DLDataType& o) const {
    return code == o.code && bits == o.bits && lanes == o.lanes;
  }
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64, "the layout is fixed");

inline DLDataType dlpack_type(int32_t dtype) {
  constexpr DLDataType kTypes[] = {
      {2, 32, 1}, {2, 64, 1}, {2, 16, 1}, {1, 8, 1},  {0, 32, 1}, {0, 8, 1},  {0, 64, 1},  {6, 8, 1},
      {0, 16, 1}, {1, 16, 1}, {1, 32, 1}, {1, 64, 1}, {4, 16, 1}, {5, 64, 1}, {5, 128, 1}};
  if (dtype < 0 || dtype > MX_COMPLEX128) throw Error(MX_ERROR_DTYPE, "[dlpack] unknown type");
  return kTypes[dtype];
}

inline int32_t dtype_of(DLDataType type) {
  for (int32_t dtype = 0; dtype <= MX_COMPLEX128; ++dtype) {
    if (dlpack_type(dtype) == type) return dtype;
  }
  throw Error(MX_ERROR_DTYPE, "[from_dlpack] element type code " + std::to_string(type.code) +
                                  " of " + std::to_string(type.bits) + " bits is not known");
}

}  // namespace mx::nd
