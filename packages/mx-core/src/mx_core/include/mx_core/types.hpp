// SPDX-License-Identifier: Apache-2.0
//
// Element types: their sizes and their names.  Header-only C++17, no Python.
//
// The codes of mx_dtype are frozen by mx_core/abi.h.  A package knows the types that existed when it
// was compiled; a later one is an unknown type to it, which it must refuse.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mx_core/abi.h"

namespace mx {

// Bytes of one element; 0 for an unknown type.
constexpr size_t item_size(int32_t dtype) noexcept {
  switch (dtype) {
    case MX_UINT8: case MX_INT8: case MX_BOOL: return 1;
    case MX_FLOAT16: case MX_BFLOAT16: case MX_INT16: case MX_UINT16: return 2;
    case MX_FLOAT32: case MX_INT32: case MX_UINT32: return 4;
    case MX_FLOAT64: case MX_INT64: case MX_UINT64: case MX_COMPLEX64: return 8;
    case MX_COMPLEX128: return 16;
    default: return 0;
  }
}

// NumPy's name of the type; "unknown" for an unknown one.
constexpr const char* type_name(int32_t dtype) noexcept {
  switch (dtype) {
    case MX_FLOAT32: return "float32";
    case MX_FLOAT64: return "float64";
    case MX_FLOAT16: return "float16";
    case MX_UINT8: return "uint8";
    case MX_INT32: return "int32";
    case MX_INT8: return "int8";
    case MX_INT64: return "int64";
    case MX_BOOL: return "bool";
    case MX_INT16: return "int16";
    case MX_UINT16: return "uint16";
    case MX_UINT32: return "uint32";
    case MX_UINT64: return "uint64";
    case MX_BFLOAT16: return "bfloat16";
    case MX_COMPLEX64: return "complex64";
    case MX_COMPLEX128: return "complex128";
    default: return "unknown";
  }
}

}  // namespace mx
