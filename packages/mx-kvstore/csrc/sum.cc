// SPDX-License-Identifier: Apache-2.0
#include "sum.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "mx_core/abi.h"
#include "mx_core/half.hpp"
#include "simd.hpp"

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
  bool streaming;
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

template <class T>
MX_KV_INLINE void sum_range(const Range& range) {
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
      if (range.streaming) {
        stream(to, made, bytes);
      } else {
        std::memcpy(to, made, bytes);
      }
    }
  }
  if (range.streaming) fence_streams();
}

template <class T>
void sum_plainly(const Range& range) {
  sum_range<T>(range);
}

template <class T>
MX_KV_AVX2 void sum_by_avx2(const Range& range) {
  sum_range<T>(range);
}

template <class T>
void chosen(const Range& range) {
  has_avx2() ? sum_by_avx2<T>(range) : sum_plainly<T>(range);
}

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
  sum_of(dtype)({sources.data(), sources.size(), targets.data(), targets.size(), begin, end, streaming});
}

}  // namespace mx::kv
