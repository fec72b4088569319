// SPDX-License-Identifier: Apache-2.0
//
// The layout of DLPack tensors, with versions (1.x) and without (https://dmlc.github.io/dlpack), and
// how types and devices map.
#pragma once

#include <cstdint>

#include "mx_core/failure.hpp"

namespace mx::nd {

constexpr int32_t kDLCPU = 1;
constexpr int32_t kDLCUDA = 2;
constexpr int32_t kDLCUDAHost = 3;
constexpr int32_t kDLCUDAManaged = 13;

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
struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};
static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64 &&
                  sizeof(DLManagedTensorVersioned) == 80,
              "the layouts are fixed");

constexpr DLPackVersion kDLPackVersion = {1, 1};  // what we write; any 1.x is read
constexpr uint64_t kDLReadOnly = 1;
constexpr uint64_t kDLCopied = 2;

// Capsules of either kind: their names before and after somebody took the tensor.
template <class Managed>
struct DLCapsule;
template <>
struct DLCapsule<DLManagedTensor> {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
};
template <>
struct DLCapsule<DLManagedTensorVersioned> {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
};

inline DLDevice dlpack_device(mx_context context) {
  switch (context.type) {
    case MX_GPU: return {kDLCUDA, context.id};
    case MX_CPU_PINNED: return {kDLCUDAHost, 0};
    case MX_CPU: case MX_CPU_SHARED: return {kDLCPU, 0};
    default: return {0, 0};  // DLPack has no number for it
  }
}

inline mx_context context_of(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU: return {MX_CPU, 0};
    case kDLCUDAHost: return {MX_CPU_PINNED, 0};
    case kDLCUDA: case kDLCUDAManaged: return {MX_GPU, device.device_id};
    default:
      throw Error(MX_ERROR_UNSUPPORTED, "[from_dlpack] device type " +
                                            std::to_string(device.device_type) + " is not known");
  }
}

inline bool is_contiguous(const DLTensor& tensor) noexcept {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

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
