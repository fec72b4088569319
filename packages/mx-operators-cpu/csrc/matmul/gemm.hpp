// SPDX-License-Identifier: Apache-2.0
//
// Blocked matrix products in float32 and float64 (K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008).  Factors are packed panel by panel, so that they may lie in memory in any order, or be made
// while they are packed, as the windows of a convolution are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/loops.hpp"

namespace mx::cpu {

// One factor of a product as lines along the summed axis: the rows of A, the columns of B.
template <class T>
class Factor {
 public:
  virtual ~Factor() = default;
  // panel[k * width + i] = element begin + k of line first + i, for k < depth and i < lines; 0 for the other i < width.
  virtual void pack(T* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const = 0;
  // That panel, where it lies in memory already; else nullptr.
  virtual const T* packed([[maybe_unused]] int64_t first, [[maybe_unused]] int64_t begin) const { return nullptr; }
};

// A matrix in memory; steps in elements.
template <class T>
class StridedFactor final : public Factor<T> {
 public:
  StridedFactor(const T* data, int64_t line_step, int64_t depth_step)
      : data_(data), line_step_(line_step), depth_step_(depth_step) {}
  void pack(T* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const override;

 private:
  const T* data_;
  int64_t line_step_, depth_step_;
};

// panel[k * width + i] = from[i * line_step + k], for i < lines and k < depth.
void pack_along_depth(double* panel, int64_t width, const double* from, int64_t line_step, int64_t lines,
                      int64_t depth);

// panel[k * width + i] = from[i][first + k], for i < 4 and k < depth, a multiple of 4.
void pack_squares(double* panel, int64_t width, const double* const from[4], int64_t first, int64_t depth);

// Where a product goes.
template <class T>
class Destination {
 public:
  virtual ~Destination() = default;
  // Takes sums of n columns of a row, from `column` on; `first`: what comes later is added to them.
  virtual void put(int64_t row, int64_t column, const T* sums, int64_t n, bool first) const = 0;
};

// Rows of contiguous elements.
template <class T>
class Rows final : public Destination<T> {
 public:
  // `add`: to what is there.  Added, too, if given: a number for each row, a number for each column.
  Rows(T* data, int64_t row_step, bool add = false, const T* per_row = nullptr, const T* per_column = nullptr)
      : data_(data), row_step_(row_step), add_(add), per_row_(per_row), per_column_(per_column) {}
  void put(int64_t row, int64_t column, const T* sums, int64_t n, bool first) const override;

 private:
  T* data_;
  int64_t row_step_;
  bool add_;
  const T *per_row_, *per_column_;
};

// C (m, n) = A (m, k) B (k, n), cut into tasks that threads do side by side.
template <class T>
class Gemm {
 public:
  // `products`: how many of this size there are to do at the same time.
  Gemm(int64_t m, int64_t n, int64_t k, int64_t products, int threads);

  int64_t tasks() const { return row_blocks_ * column_blocks_; }
  // Bytes of scratch memory that every thread needs.
  size_t scratch_bytes() const;
  void run(int64_t task, const Factor<T>& a, const Factor<T>& b, const Destination<T>& c, T* scratch) const;

 private:
  const GemmTile<T>& tile_;
  int64_t m_, n_, k_;
  int64_t rows_, columns_;  // of a task
  int64_t depth_;           // packed at a time
  int64_t row_blocks_ = 0, column_blocks_ = 0;
};

extern template class StridedFactor<float>;
extern template class StridedFactor<double>;
extern template class Rows<float>;
extern template class Rows<double>;
extern template class Gemm<float>;
extern template class Gemm<double>;

}  // namespace mx::cpu
