// SPDX-License-Identifier: Apache-2.0
//
// Which vector instructions loops are compiled for, and stores past the caches.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
// A function that is compiled for AVX2, too; only what `has_avx2` allows may call it.
#define MX_KV_AVX2 __attribute__((target("avx2")))
#else
#define MX_KV_AVX2
#endif
#define MX_KV_INLINE inline __attribute__((always_inline))

namespace mx::kv {

// For tests: whether loops for AVX2 may be used where there is AVX2.
inline std::atomic<bool> avx2_allowed{true};

inline bool has_avx2() noexcept {
#if defined(__x86_64__)
  static const bool found = __builtin_cpu_supports("avx2") != 0;
  return found && avx2_allowed.load(std::memory_order_relaxed);
#else
  return false;
#endif
}

// As memcpy, but past the caches where the target allows it.  `fence_streams` must follow on the same thread before
// others read.
inline void stream(void* to, const void* from, size_t bytes) noexcept {
#if defined(__x86_64__)
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    const size_t whole = bytes / 64 * 64;
    auto* target = static_cast<char*>(to);
    const auto* source = static_cast<const char*>(from);
    for (size_t i = 0; i < whole; i += 64) {
      for (size_t j = 0; j < 64; j += 16) {
        const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i + j));
        _mm_stream_si128(reinterpret_cast<__m128i*>(target + i + j), value);
      }
    }
    std::memcpy(target + whole, source + whole, bytes - whole);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

inline void fence_streams() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace mx::kv
