// SPDX-License-Identifier: Apache-2.0
//
// Philox 4x32-10, the counter-based generator of every random operator, and the conversions that
// make floats and integers of its words.  Header-only, for C++17, CUDA and NVRTC.
//
// A stream is a 64-bit key; counter c of it yields four 32-bit words.  Element i of an output
// depends on (key, first counter, i) alone, so the number of threads does not matter:
//   float32, float16, bfloat16   word i       i.e. word i % 4 of counter first + i / 4
//   float64, integers            words 2i and 2i + 1, the low one first
// Words, uniforms and integers are the same on every processor; normals differ by the rounding of
// log, sin and cos.  `mx_core.philox` is the same in NumPy.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#if defined(__CUDACC__)
#define MX_PHILOX_INLINE __host__ __device__ inline
#else
#define MX_PHILOX_INLINE inline
#endif
#if !defined(__CUDACC_RTC__)
#include <math.h>
#endif

namespace mx {
namespace philox {

using word = unsigned int;        // 32 bits
using wide = unsigned long long;  // 64 bits

struct Block {
  word words[4];
};

// The four words of a 128-bit counter under a 64-bit key, both least significant word first.
MX_PHILOX_INLINE Block philox4x32(const word (&counter)[4], const word (&key)[2]) {
  word c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  word k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const wide a = wide{0xD2511F53U} * c0;
    const wide b = wide{0xCD9E8D57U} * c2;
    c0 = static_cast<word>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<word>(b);
    c2 = static_cast<word>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<word>(a);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return Block{{c0, c1, c2, c3}};
}

// Counter `counter` of a stream.  `branch` separates further draws for one element (a sampler that
// rejects, say) from the stream itself, which is branch 0.
MX_PHILOX_INLINE Block block(wide key, wide counter, wide branch = 0) {
  const word c[4] = {static_cast<word>(counter), static_cast<word>(counter >> 32),
                     static_cast<word>(branch), static_cast<word>(branch >> 32)};
  const word k[2] = {static_cast<word>(key), static_cast<word>(key >> 32)};
  return philox4x32(c, k);
}

MX_PHILOX_INLINE wide join(word low, word high) { return wide{high} << 32 | low; }

// Uniform in [0, 1), a multiple of 2^-24.
MX_PHILOX_INLINE float uniform32(word w) { return static_cast<float>(w >> 8) * 0x1p-24F; }
// Uniform in [0, 1), a multiple of 2^-53.
MX_PHILOX_INLINE double uniform64(wide w) { return static_cast<double>(w >> 11) * 0x1p-53; }
// Uniform in [0, 1) that float16 (11 bits) and bfloat16 (8 bits) hold exactly.
MX_PHILOX_INLINE float uniform16(word w) { return static_cast<float>(w >> 21) * 0x1p-11F; }
MX_PHILOX_INLINE float uniform_bfloat16(word w) { return static_cast<float>(w >> 24) * 0x1p-8F; }

// floor(w * range / 2^64): an integer in [0, range), every one equally likely within range / 2^64.
MX_PHILOX_INLINE wide below(wide w, wide range) {
  const wide wl = w & 0xFFFFFFFFU, wh = w >> 32, rl = range & 0xFFFFFFFFU, rh = range >> 32;
  const wide middle = wh * rl + (wl * rl >> 32);
  const wide carry = (middle & 0xFFFFFFFFU) + wl * rh;
  return wh * rh + (middle >> 32) + (carry >> 32);
}

// Box-Muller: elements 2j and 2j + 1 from words 2j and 2j + 1, in single precision.
//   u = w0 * 2^-32 + 2^-33 in (0, 1],  r = sqrt(-2 log u),  t = 2 pi uniform32(w1)
//   r cos t, r sin t
MX_PHILOX_INLINE void normal32(word w0, word w1, float& first, float& second) {
  const float u = static_cast<float>(w0) * 0x1p-32F + 0x1p-33F;
  const float r = sqrtf(-2.0F * logf(u));
  const float t = 6.283185307179586F * uniform32(w1);
  first = r * cosf(t);
  second = r * sinf(t);
}

// The same in double precision from the four words of a counter.
//   u = (floor(w0 / 2^11) + 1) 2^-53 in (0, 1],  t = 2 pi uniform64(w1)
MX_PHILOX_INLINE void normal64(wide w0, wide w1, double& first, double& second) {
  const double u = static_cast<double>((w0 >> 11) + 1) * 0x1p-53;
  const double r = sqrt(-2.0 * log(u));
  const double t = 6.283185307179586 * uniform64(w1);
  first = r * cos(t);
  second = r * sin(t);
}

}  // namespace philox
}  // namespace mx
