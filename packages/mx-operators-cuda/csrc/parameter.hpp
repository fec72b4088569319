// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mx::cuda {

// One parameter of a kernel: what it is, and which one or the number.
struct Parameter {
  enum Kind : uint8_t {
    kInput,    // pointer to input `number`
    kOutput,   // pointer to output `number`
    kRequest,  // int: what is done with output `number`
    kScalar,   // double: run-time scalar `number`
    kScratch,  // pointer to scratch `number`
    kUint32,   // `number` itself
    kUint64,
    kRandomKey,     // uint64
    kRandomOffset,  // uint64
  };
  Kind kind;
  uint64_t number;
  uint64_t offset = 0;  // bytes from where a tensor or scratch begins
};

}  // namespace mx::cuda
