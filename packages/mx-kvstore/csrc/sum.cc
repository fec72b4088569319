// SPDX-License-Identifier: Apache-2.0
#include "sum.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "mx_core/abi.h"
#include "mx_core/half.hpp"
#include "simd.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mx::kv {
namespace {

constexpr int64_t kTile = 2048;  // elements; a tile stays in the first-level cache

// What terms of type T are added in.
template <class T>
struct Term {
  using type = T;
};
template <>
struct Term<Float16> {
  using type = float;
};
template <>
struct Term<BFloat16> {
  using type = float;
};

struct Range {
  const void* const* sources;
  size_t n_sources;
  void* const* targets;
  size_t n_targets;
  int64_t begin, end;
  size_t cached;  // targets before this one go through the caches, the others past them
};

template <class T>
MX_KV_INLINE void first(typename Term<T>::type* total, const T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) total[i] = static_cast<typename Term<T>::type>(a[i]);
}

template <class T>
MX_KV_INLINE void first_two(typename Term<T>::type* total, const T* a, const T* b, int64_t n) {
  using Sum = typename Term<T>::type;
  for (int64_t i = 0; i < n; ++i) total[i] = static_cast<Sum>(static_cast<Sum>(a[i]) + static_cast<Sum>(b[i]));
}

template <class T>
MX_KV_INLINE void further(typename Term<T>::type* total, const T* a, int64_t n) {
  using Sum = typename Term<T>::type;
  for (int64_t i = 0; i < n; ++i) total[i] = static_cast<Sum>(total[i] + static_cast<Sum>(a[i]));
}

// A tile at a time.
template <class T>
MX_KV_INLINE void sum_tiles(const Range& range) {
  using Sum = typename Term<T>::type;
  alignas(64) Sum total[kTile];
  alignas(64) T rounded[std::is_same_v<Sum, T> ? 1 : kTile];
  const auto source = [&](size_t i) { return static_cast<const T*>(range.sources[i]); };
  for (int64_t at = range.begin; at < range.end; at += kTile) {
    const int64_t n = std::min(kTile, range.end - at);
    if (range.n_sources == 1) {
      first<T>(total, source(0) + at, n);
    } else {
      first_two<T>(total, source(0) + at, source(1) + at, n);
    }
    for (size_t i = 2; i < range.n_sources; ++i) further<T>(total, source(i) + at, n);
    const void* made = total;
    if constexpr (!std::is_same_v<Sum, T>) {
      for (int64_t i = 0; i < n; ++i) rounded[i] = static_cast<T>(total[i]);
      made = rounded;
    }
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    for (size_t i = 0; i < range.n_targets; ++i) {
      void* to = static_cast<T*>(range.targets[i]) + at;
      if (i < range.cached) {
        std::memcpy(to, made, bytes);
      } else {
        stream(to, made, bytes);
      }
    }
  }
}

template <class T>
void sum_plainly(const Range& range) {
  sum_tiles<T>(range);
}

#if defined(__x86_64__)

constexpr int64_t kLine = 64;           // bytes of a cache line
constexpr int64_t kBlock = 4 * kLine;   // bytes that are added at once into many targets
constexpr int64_t kAhead = 16 * kLine;  // bytes that are fetched before they are added then
constexpr size_t kMany = 3;             // targets

// A register of each type that is added in itself.
MX_KV_AVX2 MX_KV_INLINE __m256i plus(__m256i a, __m256i b, float) {
  return _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b)));
}
MX_KV_AVX2 MX_KV_INLINE __m256i plus(__m256i a, __m256i b, double) {
  return _mm256_castpd_si256(_mm256_add_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b)));
}
MX_KV_AVX2 MX_KV_INLINE __m256i plus(__m256i a, __m256i b, uint8_t) { return _mm256_add_epi8(a, b); }
MX_KV_AVX2 MX_KV_INLINE __m256i plus(__m256i a, __m256i b, uint16_t) { return _mm256_add_epi16(a, b); }
MX_KV_AVX2 MX_KV_INLINE __m256i plus(__m256i a, __m256i b, uint32_t) { return _mm256_add_epi32(a, b); }
MX_KV_AVX2 MX_KV_INLINE __m256i plus(__m256i a, __m256i b, uint64_t) { return _mm256_add_epi64(a, b); }

MX_KV_AVX2 MX_KV_INLINE __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

MX_KV_AVX2 MX_KV_INLINE void fetch(const char* block) {
  for (int64_t at = 0; at < kBlock; at += kLine) _mm_prefetch(block + at, _MM_HINT_NTA);
}

// So many bytes at a time are added in registers, and stored to one target after the other; past the caches only to
// addresses of whole registers.  Of blocks those that come later are fetched: while many targets are written, processors
// do not look ahead far enough.
template <class T, size_t kSources, int64_t kBytes>
MX_KV_AVX2 void sum_in_registers(const Range& range) {
  constexpr int64_t kRegister = 32, kRegisters = kBytes / kRegister;
  const size_t sources = kSources == 0 ? range.n_sources : kSources;
  const int64_t end = range.end * static_cast<int64_t>(sizeof(T));
  for (int64_t at = range.begin * static_cast<int64_t>(sizeof(T)); at < end; at += kBytes) {
    const char* from = static_cast<const char*>(range.sources[0]) + at;
    if constexpr (kBytes == kBlock) fetch(from + kAhead);
    __m256i total[kRegisters];
    for (int64_t j = 0; j < kRegisters; ++j) total[j] = load(from + j * kRegister);
    for (size_t i = 1; i < sources; ++i) {
      from = static_cast<const char*>(range.sources[i]) + at;
      if constexpr (kBytes == kBlock) fetch(from + kAhead);
      for (int64_t j = 0; j < kRegisters; ++j) total[j] = plus(total[j], load(from + j * kRegister), T{});
    }
    size_t i = 0;
    for (; i < range.cached; ++i) {
      auto* const to = reinterpret_cast<__m256i*>(static_cast<char*>(range.targets[i]) + at);
      for (int64_t j = 0; j < kRegisters; ++j) _mm256_storeu_si256(to + j, total[j]);
    }
    for (; i < range.n_targets; ++i) {
      auto* const to = reinterpret_cast<__m256i*>(static_cast<char*>(range.targets[i]) + at);
      for (int64_t j = 0; j < kRegisters; ++j) _mm256_stream_si256(to + j, total[j]);
    }
  }
}

// What there is of whole blocks, or lines; returns where the rest begins.
template <class T, int64_t kBytes>
MX_KV_AVX2 int64_t sum_whole(Range range) {
  constexpr int64_t per_turn = kBytes / static_cast<int64_t>(sizeof(T));
  range.end = range.begin + (range.end - range.begin) / per_turn * per_turn;
  switch (range.n_sources) {
    case 1: sum_in_registers<T, 1, kBytes>(range); break;
    case 2: sum_in_registers<T, 2, kBytes>(range); break;
    default: sum_in_registers<T, 0, kBytes>(range); break;
  }
  return range.end;
}

template <class T>
MX_KV_AVX2 void sum_by_avx2(Range range) {
  if constexpr (std::is_same_v<typename Term<T>::type, T>) {
    for (size_t i = range.cached; i < range.n_targets; ++i) {
      if (reinterpret_cast<uintptr_t>(static_cast<T*>(range.targets[i]) + range.begin) % 32 != 0) {
        range.cached = range.n_targets;
      }
    }
    if (range.n_targets - range.cached >= kMany) range.begin = sum_whole<T, kBlock>(range);
    range.begin = sum_whole<T, kLine>(range);
  }
  if (range.begin < range.end) sum_tiles<T>(range);
}

template <class T>
void chosen(const Range& range) {
  has_avx2() ? sum_by_avx2<T>(range) : sum_plainly<T>(range);
}

#else

template <class T>
void chosen(const Range& range) {
  sum_plainly<T>(range);
}

#endif

using Sum = void (*)(const Range&);

Sum sum_of(int32_t dtype) noexcept {
  switch (dtype) {
    case MX_FLOAT32: return &chosen<float>;
    case MX_FLOAT64: return &chosen<double>;
    case MX_FLOAT16: return &chosen<Float16>;
    case MX_BFLOAT16: return &chosen<BFloat16>;
    case MX_INT8: case MX_UINT8: return &chosen<uint8_t>;
    case MX_INT16: case MX_UINT16: return &chosen<uint16_t>;
    case MX_INT32: case MX_UINT32: return &chosen<uint32_t>;
    case MX_INT64: case MX_UINT64: return &chosen<uint64_t>;
    default: return nullptr;
  }
}

}  // namespace

bool can_sum(int32_t dtype) noexcept { return sum_of(dtype) != nullptr; }

void sum(int32_t dtype, const std::vector<const void*>& sources, const std::vector<void*>& targets, int64_t begin,
         int64_t end, bool streaming) {
  sum_unfenced(dtype, sources, targets, begin, end, streaming ? 0 : targets.size());
  if (streaming) fence_streams();
}

void sum_unfenced(int32_t dtype, const std::vector<const void*>& sources, const std::vector<void*>& targets,
                  int64_t begin, int64_t end, size_t cached) {
  sum_of(dtype)({sources.data(), sources.size(), targets.data(), targets.size(), begin, end, cached});
}

}  // namespace mx::kv
