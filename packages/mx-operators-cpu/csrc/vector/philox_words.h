// SPDX-License-Identifier: Apache-2.0
//
// Many blocks of Philox side by side, the numbers of mx_core/philox.hpp.  Included by each
// instruction set's translation unit, inside its own namespace.

constexpr size_t kPhiloxLanes = 16;

inline void philox_lanes(uint32_t (&c0)[kPhiloxLanes], uint32_t (&c1)[kPhiloxLanes],
                         uint32_t (&c2)[kPhiloxLanes], uint32_t (&c3)[kPhiloxLanes], uint64_t key) {
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kPhiloxLanes; ++i) {
      const uint64_t a = uint64_t{0xD2511F53u} * c0[i], b = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(b);
      c3[i] = static_cast<uint32_t>(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// Four words for each of n counters.
void philox_words(uint32_t* out, uint64_t key, uint64_t counter, size_t n) {
  for (size_t start = 0; start < n; start += kPhiloxLanes) {
    uint32_t c0[kPhiloxLanes], c1[kPhiloxLanes], c2[kPhiloxLanes] = {}, c3[kPhiloxLanes] = {};
    for (size_t i = 0; i < kPhiloxLanes; ++i) {
      const uint64_t c = counter + start + i;
      c0[i] = static_cast<uint32_t>(c);
      c1[i] = static_cast<uint32_t>(c >> 32);
    }
    philox_lanes(c0, c1, c2, c3, key);
    const size_t some = n - start < kPhiloxLanes ? n - start : kPhiloxLanes;
    for (size_t i = 0; i < some; ++i) {
      uint32_t* to = out + 4 * (start + i);
      to[0] = c0[i];
      to[1] = c1[i];
      to[2] = c2[i];
      to[3] = c3[i];
    }
  }
}
