// SPDX-License-Identifier: Apache-2.0
//
// A stream of random numbers that depends on (seed, epoch, record) only, so that augmentation is
// the same whatever thread does it.
#pragma once

#include <cmath>
#include <cstdint>

#include "mx_core/philox.hpp"

namespace mx::io {

class RecordRandom {
 public:
  RecordRandom(uint64_t seed, uint32_t epoch, uint64_t record)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, epoch, static_cast<uint32_t>(record), static_cast<uint32_t>(record >> 32)} {}

  uint32_t bits() {
    if (used_ == 4) refill();
    return block_.words[used_++];
  }
  // In [0, 1).
  float uniform() { return philox::uniform32(bits()); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // In [0, count); count > 0.
  int64_t integer(int64_t count) {
    return static_cast<int64_t>((static_cast<uint64_t>(bits()) * static_cast<uint64_t>(count)) >> 32);
  }
  float normal() {
    const float radius = std::sqrt(-2.0F * std::log(1.0F - uniform()));
    return radius * std::cos(6.28318530717959F * uniform());
  }

 private:
  void refill() {
    block_ = philox::philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }

  philox::word key_[2];
  philox::word counter_[4];
  philox::Block block_{};
  int used_ = 4;
};

}  // namespace mx::io
