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
    kScalar,   // Given<double>: run-time scalar `number`
    kScratch,  // pointer to scratch `number`
    kUint32,   // `number` itself
    kUint64,
    kRandomKey,     // Given<uint64>
    kRandomOffset,  // Given<uint64>
    kNumber,        // Given<double>: the one with the bits `number`
  };
  Kind kind;
  uint64_t number;
  uint64_t offset = 0;  // bytes from where a tensor or scratch begins

  // A captured run reads it from memory of the device, so that later runs get other numbers.
  bool varies() const noexcept { return kind == kScalar || kind >= kRandomKey; }
};
inline bool operator==(const Parameter& a, const Parameter& b) noexcept {
  return a.kind == b.kind && a.number == b.number && a.offset == b.offset;
}

}  // namespace mx::cuda
