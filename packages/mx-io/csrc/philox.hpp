// SPDX-License-Identifier: Apache-2.0
//
// A stream of random numbers that depends on (seed, epoch, record) only, so that augmentation is
// the same whatever thread does it.  Philox 4x32-10: Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011.
#pragma once

#include <cmath>
#include <cstdint>

namespace mx::io {

class RecordRandom {
 public:
  RecordRandom(uint64_t seed, uint32_t epoch, uint64_t record)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, epoch, static_cast<uint32_t>(record), static_cast<uint32_t>(record >> 32)} {}

  uint32_t bits() {
    if (used_ == 4) refill();
    return words_[used_++];
  }
  // In [0, 1).
  float uniform() { return static_cast<float>(bits() >> 8) * (1.0F / 16777216.0F); }
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
    uint32_t k0 = key_[0], k1 = key_[1];
    uint32_t c[4] = {counter_[0], counter_[1], counter_[2], counter_[3]};
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53U} * c[0];
      const uint64_t b = uint64_t{0xCD9E8D57U} * c[2];
      const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
                                static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
      for (int i = 0; i < 4; ++i) c[i] = next[i];
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    for (int i = 0; i < 4; ++i) words_[i] = c[i];
    ++counter_[0];
    used_ = 0;
  }

  uint32_t key_[2];
  uint32_t counter_[4];
  uint32_t words_[4] = {};
  int used_ = 4;
};

}  // namespace mx::io
