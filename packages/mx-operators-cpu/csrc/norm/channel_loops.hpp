// SPDX-License-Identifier: Apache-2.0
//
// What normalisations do to memory: sums per channel, then a linear function per channel.  Float32, and BFloat16
// made for channels whose elements follow each other (`inner` > 1), compiled for several instruction sets, on the calling
// thread.  Sums keep float lanes over short runs and doubles across them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mx_core/half.hpp"

namespace mx::cpu {

constexpr int64_t kBlockChannels = 64;
constexpr size_t kCacheBytes = size_t{24} << 20;  // inputs and outputs larger than that no cache will hold

// Some neighbouring channels of a tensor: element (r, c, i) lies at r * step + c * inner + i.
struct Block {
  int64_t rows, step;
  int64_t channels;  // at most kBlockChannels
  int64_t inner;
};

// One contiguous run as the only channel.
inline Block run_of(int64_t n) { return {1, n, 1, n}; }

// How many channels make a block that is worth a pass of its own and stays in cache over several.
inline int64_t block_channels(int64_t inner) {
  const int64_t fitting = 4096 / inner;
  return fitting < 1 ? 1 : fitting < kBlockChannels ? fitting : kBlockChannels;
}

// The parameters below are per channel of the block. Whole rows of channels: channel_rows.hpp; parameters per element:
// scaled_rows.hpp.

void sums(const float* x, const Block& block, double* result);
void sums(const BFloat16* x, const Block& block, double* result);
// Sums of (x - mean)^2.
void squared_deviations(const float* x, const float* mean, const Block& block, double* result);
void squared_deviations(const BFloat16* x, const float* mean, const Block& block, double* result);
// Sums of g, and of g * (x - mean).
void gradient_sums(const float* g, const float* x, const float* mean, const Block& block, double* totals,
                   double* moments);
void gradient_sums(const BFloat16* g, const BFloat16* x, const float* mean, const Block& block, double* totals,
                   double* moments);
// y = (x - mean) * scale + shift, or y += that.
void normalize(const float* x, const float* mean, const float* scale, const float* shift, float* y,
               const Block& block, bool add);
void normalize(const BFloat16* x, const float* mean, const float* scale, const float* shift, BFloat16* y,
               const Block& block, bool add);
// The same as `normalize` without addition, written past the caches.
void normalize_past_caches(const float* x, const float* mean, const float* scale, const float* shift, float* y,
                           const Block& block);
// y = a * g + b * (x - mean) + c, or y += that.
void combine(const float* g, const float* x, const float* mean, const float* a, const float* b, const float* c,
             float* y, const Block& block, bool add);
void combine(const BFloat16* g, const BFloat16* x, const float* mean, const float* a, const float* b, const float* c,
             BFloat16* y, const Block& block, bool add);

// y = value, written past the caches.
void fill_past_caches(float* y, float value, int64_t n);

double dot(const float* a, const float* b, int64_t n);
double dot(const BFloat16* a, const BFloat16* b, int64_t n);

// The like in double.

void sums(const double* x, const Block& block, double* result);
void squared_deviations(const double* x, const double* mean, const Block& block, double* result);
void gradient_sums(const double* g, const double* x, const double* mean, const Block& block, double* totals,
                   double* moments);
void normalize(const double* x, const double* mean, const double* scale, const double* shift, double* y,
               const Block& block, bool add);
void combine(const double* g, const double* x, const double* mean, const double* a, const double* b, const double* c,
             double* y, const Block& block, bool add);

// What statistics of elements are: float, but of doubles.
template <class T>
using Statistic = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace mx::cpu
