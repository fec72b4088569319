// SPDX-License-Identifier: Apache-2.0
//
// Sizes of small blocks: four steps per power of two, so at most a fifth of a block is lost, and
// every size is a multiple of 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mx::storage {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallLimit = size_t{1} << 20;  // of the largest class
constexpr uint32_t kClasses = 52;                // 64, 128, 192, 256, then 48 steps up to 1 MiB

inline uint32_t class_of(size_t bytes) noexcept {
  if (bytes <= 256) return static_cast<uint32_t>((bytes - 1) / 64);
  // 2^power < bytes <= 2^(power + 1)
  const uint32_t power = 63U - static_cast<uint32_t>(__builtin_clzll(bytes - 1));
  const auto step = static_cast<uint32_t>((bytes - 1) >> (power - 2));  // 4 to 7
  return 4 * (power - 8) + step;
}

inline size_t class_bytes(uint32_t index) noexcept {
  if (index < 4) return 64 * (size_t{index} + 1);
  const uint32_t power = index / 4 + 7;
  return size_t{index % 4 + 5} << (power - 2);
}

}  // namespace mx::storage
