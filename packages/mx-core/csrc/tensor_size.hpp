// SPDX-License-Identifier: Apache-2.0
//
// Sizes of tensors, with overflow refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mx_core/abi.h"
#include "mx_core/failure.hpp"
#include "mx_core/types.hpp"

namespace mx::core {

inline size_t tensor_bytes(const std::string& op, int32_t dtype, const std::vector<int64_t>& shape) {
  if (shape.size() > MX_MAX_NDIM) {
    throw Error(MX_ERROR_SHAPE, "[" + op + "] a tensor has " + std::to_string(shape.size()) +
                                    " axes; at most " + std::to_string(MX_MAX_NDIM) + " are possible");
  }
  size_t bytes = item_size(dtype);
  if (bytes == 0) {
    throw Error(MX_ERROR_DTYPE, "[" + op + "] unknown element type " + std::to_string(dtype));
  }
  for (const int64_t length : shape) {
    if (length < 0) {
      throw Error(MX_ERROR_SHAPE, "[" + op + "] negative length " + std::to_string(length));
    }
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(length), &bytes)) {
      throw Error(MX_ERROR_SHAPE, "[" + op + "] a tensor's size overflows");
    }
  }
  return bytes;
}

}  // namespace mx::core
