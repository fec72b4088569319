// SPDX-License-Identifier: Apache-2.0
//
// The inner loops, compiled once per instruction set; `loops()` is the best set this CPU runs.
// Every loop allows its output to be exactly one of its operands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/dtype.hpp"

namespace mx::cpu {

// out[i] = f(a[i], b[i], c[i]); operands a form marks as scalar are read at index 0 only.
using Loop = void (*)(void* out, const void* a, const void* b, const void* c, size_t n);
using Convert = void (*)(void* out, const void* in, size_t n);
// Folds n elements into accumulators; see ReduceOp.
using Fold = void (*)(void* accumulator, const void* in, size_t n);

constexpr int kOpcodes = 128;  // above every opcode value of expression.h
constexpr uint16_t kGelu = 127;  // and one more: x times the normal distribution function of x
constexpr int kForms = 8;      // bit i set: operand i is a scalar

enum ReduceOp : uint8_t { kSum, kProd, kMax, kMin, kNanSum, kNanProd, kSumAbs, kSumSquare, kReduceOps };

// A tile of a matrix product: sums[r][j] = sum over k of a[k][r] * b[k][j], r < rows, j < columns.
template <class T>
struct GemmTile {
  int64_t rows, columns;
  void (*run)(T* sums, const T* a, const T* b, int64_t depth);
  // The same, whose line k of b begins at b + offsets[k].
  void (*run_lines)(T* sums, const T* a, const T* b, const int64_t* offsets, int64_t depth);
};
constexpr int64_t kLargestTile = 8 * 48;  // elements

// A row of such a tile along lines: sums[j] = sum over k < depth of a[k] * b[offsets[k] + j], j < columns.
struct LineRow {
  int64_t columns;
  void (*run)(double* sums, const double* a, const double* b, const int64_t* offsets, int64_t depth);
};
constexpr int64_t kLongestRow = 96;  // columns

// A tile of products along lines: sums[r][c] += sum over i < n of a[r * a_step + i] * b[offsets[c] + i], r < rows,
// c < columns; where `mask` is 0, not all ones, b counts as 0.  n is a multiple of kDotLength.
struct DotTile {
  int64_t rows, columns;
  void (*run)(double* sums, const double* a, int64_t a_step, const double* b, const int64_t* offsets,
              const int64_t* mask, int64_t n);
};
constexpr int64_t kDotLength = 8;
constexpr int64_t kLargestDots = 16;  // sums of a tile

struct LoopTable {
  const char* name;
  Loop op[kComputeTypes][kOpcodes][kForms];
  // The same, written past the caches to memory that begins where a cache line does: float32 only.
  Loop streamed[kOpcodes][kForms];
  Convert load[kDtypes][kComputeTypes];
  Convert store[kComputeTypes][kDtypes];
  // out[0] = out[0] (+) in[0] (+) in[1] ...: one accumulator.
  Fold fold_row[kComputeTypes][kReduceOps];
  // out[r] = in[r * n] (+) in[r * n + 1] ...: an accumulator per row, float32.
  void (*fold_rows[kReduceOps])(float* out, const float* in, size_t rows, size_t n);
  // out[i] = out[i] (+) in[i]: n accumulators.
  Fold fold_columns[kComputeTypes][kReduceOps];
  // The same of four arrays, one after the other.
  void (*fold_four[kComputeTypes][kReduceOps])(void* accumulator, const void* const in[4], size_t n);
  // total[i] = total[i] (+) partial[i].
  void (*widen[kReduceOps])(double* total, const float* partial, size_t n);
  // Where row[i] is larger (smaller; or the first NaN), best[i] becomes it and found[i] `index`.
  void (*best_of[kComputeTypes])(void* best, int32_t* found, const void* row, int32_t index,
                                 bool largest, size_t n);
  // y[i] += a * x[i], in float32 [0] and float64 [1].
  void (*add_scaled[2])(void* y, const void* x, double a, size_t n);
  GemmTile<float> gemm32;
  GemmTile<double> gemm64;
  LineRow row64;
  DotTile dots64;
  // to[i * to_stride + j] = from[i + j * from_stride]: i < rows, j < n, elements of 2, of 4 and of 8 bytes.
  void (*transpose16)(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                      int64_t rows, int64_t n);
  void (*transpose32)(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                      int64_t rows, int64_t n);
  void (*transpose64)(void* to, int64_t to_stride, const void* from, int64_t from_stride,
                      int64_t rows, int64_t n);
  // to[i] = from[-i], elements of 1 << [size] bytes.
  void (*reverse[4])(void* to, const void* from, size_t n);
  // The same of groups of three bytes, n of them, from the first one of `from` on.
  void (*reverse_triples)(void* to, const void* from, size_t n);
  // Writes past the caches; any alignment.
  void (*stream)(void* out, const void* in, size_t bytes);
  // to[i] = (lower half of weights[i] * from[places[i]] + upper half * the pixel after it) >> 4, all of whose
  // channels lie together; after both pixels and after what is written there is room for 8 bytes more.
  void (*mix_pixels)(int16_t* to, const uint8_t* from, const int32_t* places, const uint32_t* weights, size_t channels,
                     size_t n);
  // to = ((above * weight_above >> 16) + (below * weight_below >> 16) + 2) >> 2, at most 255; nothing is negative.
  void (*mix_rows)(uint8_t* to, const int16_t* above, const int16_t* below, int16_t weight_above, int16_t weight_below,
                   size_t n);
  // Four Philox words for each of n counters, of one branch.
  void (*philox)(uint32_t* out, uint64_t key, uint64_t counter, uint64_t branch, size_t n);
  // Numbers in float32 from words: low + span * uniform; `kept` or 0; n pairs of normal numbers.
  void (*uniform)(float* out, const uint32_t* words, float low, float span, size_t n);
  void (*keep)(float* out, const uint32_t* words, uint32_t threshold, float kept, size_t n);
  void (*normal)(float* out, const uint32_t* words, size_t n);
};

// Throws mx::Error(MX_ERROR_UNSUPPORTED) on a CPU below the baseline.
const LoopTable& loops();
// The tile of products, and the transposition, of what tensors of T hold.
template <class T>
const GemmTile<T>& gemm_tile_of() {
  if constexpr (sizeof(T) == sizeof(float)) return loops().gemm32;
  else return loops().gemm64;
}
template <class T>
auto transposed() {
  return sizeof(T) == sizeof(float) ? loops().transpose32 : loops().transpose64;
}
// The set named "baseline", "avx2" or "avx512", nullptr when this CPU or build lacks it.
const LoopTable* loops_named(const char* name);

const LoopTable& baseline_loops();
#if defined(__x86_64__)
const LoopTable& avx2_loops();
const LoopTable& avx512_loops();
#endif

}  // namespace mx::cpu
