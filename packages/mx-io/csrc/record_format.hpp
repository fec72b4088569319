// SPDX-License-Identifier: Apache-2.0
//
// RecordIO on disk: little-endian words `magic | flag << 29 | length`, the payload, zeros up to a
// multiple of four.  A payload that contains the magic at a multiple of four is split there into
// parts (the magic itself is dropped and put back by the reader), so an aligned magic always begins
// a part and a reader may start anywhere.
#pragma once

#include <cstdint>

namespace mx::io {

constexpr uint32_t kMagic = 0xced7230aU;
constexpr uint64_t kHeadBytes = 8;
constexpr uint64_t kMaxPayload = (1U << 29) - 1;

enum class Part : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

constexpr uint32_t encode_head(Part part, uint32_t length) {
  return (static_cast<uint32_t>(part) << 29) | length;
}
constexpr uint32_t part_flag(uint32_t word) { return word >> 29; }
constexpr uint32_t part_length(uint32_t word) { return word & ((1U << 29) - 1); }
constexpr uint64_t aligned(uint64_t bytes) { return (bytes + 3) & ~uint64_t{3}; }

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "RecordIO words are read in host order");

}  // namespace mx::io
