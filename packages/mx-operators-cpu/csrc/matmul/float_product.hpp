// SPDX-License-Identifier: Apache-2.0
//
// Matrix products in float32 without a primitive for each shape: loops, or the kernels that oneDNN has for all shapes.
#pragma once

#include "common/plan.hpp"

namespace mx::cpu {

// A batch of matrices as they lie in memory; steps in elements.
struct Matrices {
  int64_t batch, rows, columns;
  int64_t row_step, column_step;
  int64_t step;  // between two matrices; 0: one serves all of the result's
};

// Matrices one after the other, in memory row by row, or column by column.
inline Matrices by_rows(int64_t batch, int64_t rows, int64_t columns) {
  return {batch, rows, columns, columns, 1, batch == 1 ? 0 : rows * columns};
}
inline Matrices by_columns(int64_t batch, int64_t rows, int64_t columns) {
  return {batch, rows, columns, 1, rows, batch == 1 ? 0 : rows * columns};
}

// c = a b + bias.
class FloatProduct {
 public:
  FloatProduct(const Matrices& a, const Matrices& b, const Matrices& c);

  // Whether it computes these, and no primitive would be faster.
  bool suits() const;
  // `bias`: one row that is added to all rows, or nullptr.  On the calling thread's team.
  void run(const float* a, const float* b, float* c, const float* bias) const;

 private:
  friend PlanPtr float_product_plan(const Signature& signature, const Cost& cost, const FloatProduct& product);

  // As BLAS names it: `order` 'T' where columns are contiguous, which are then `line` elements apart, else rows.
  struct Operand : Matrices {
    explicit Operand(const Matrices& matrices);
    char order = 'N';
    int64_t line = 0;
    bool regular = false;  // rows or columns are contiguous
  };
  double macs() const;
  void loop(const float* a, const float* b, float* c, const float* bias) const;
  void multiply(const float* a, const float* b, float* c, bool add, int64_t matrix, int64_t first, int64_t n) const;
  void spread(const float* row, float* c) const;

  const Operand a_, b_, c_;
};

// a, b[, bias] -> output.  Throws Unsupported where tensors have other sizes.
PlanPtr float_product_plan(const Signature& signature, const Cost& cost, const FloatProduct& product);

}  // namespace mx::cpu
