// SPDX-License-Identifier: Apache-2.0
//
// Gradient compression with error feedback: what a code does not say stays in a residual and is sent later.
//
// 2 bits: 11 for +threshold, 10 for -threshold, 00 for 0; the first of four values in a byte's high bits.
// 1 bit: 1 for +1, 0 for -1; the first of eight values in a byte's high bit.
// Bytes are padded with zeros to words of 4.
//
// Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training of
// speech DNNs" (2014); Strom, "Scalable distributed DNN training using commodity GPU cloud computing" (2015).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mx::kv {

enum class Code : int32_t { kOneBit = 1, kTwoBits = 2 };

// Values in one byte.
constexpr int64_t per_byte(Code code) noexcept { return code == Code::kOneBit ? 8 : 4; }
// Bytes of the codes of n values.
constexpr int64_t code_bytes(Code code, int64_t n) noexcept {
  const int64_t bits = static_cast<int64_t>(code) * n;
  return (bits + 31) / 32 * 4;
}

// Adds `gradient` to `residual`, writes codes and leaves in `residual` what they do not say.  Threads: on disjoint ranges
// that begin at multiples of 32 at the same time.
void compress(Code code, float threshold, const float* gradient, float* residual, uint8_t* codes, int64_t n) noexcept;

// What codes stand for, by bytes.  Threads: any.
class Expander {
 public:
  Expander(Code code, float threshold) noexcept;
  // Writes the values of codes to `values`, or adds them.
  void operator()(const uint8_t* codes, float* values, int64_t n, bool add) const noexcept;

 private:
  const Code code_;
  alignas(64) float table_[256 * 8];  // of two bits the first half
};

}  // namespace mx::kv
