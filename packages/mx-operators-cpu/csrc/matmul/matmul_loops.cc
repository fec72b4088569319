// SPDX-License-Identifier: Apache-2.0
//
// Panels of B are packed, so that tiles of four rows are summed in registers.
#include "matmul/matmul_loops.h"

#include <algorithm>

#include "common/clones.h"
#include "common/parallel.h"
#include "common/upcast.h"

namespace mx::cpu {
namespace {

constexpr int64_t kRows = 4, kColumns = 16;

template <class T>
MX_INLINE void tile(T (&sums)[kRows][kColumns], const T* a, int64_t row_step, int64_t depth_step, const T* panel,
                    int64_t rows, int64_t depth) {
  for (auto& row : sums)
    for (T& x : row) x = T(0);
  const T* at[kRows];
  for (int64_t r = 0; r < kRows; ++r) at[r] = a + std::min(r, rows - 1) * row_step;
  for (int64_t k = 0; k < depth; ++k, panel += kColumns)
    for (int64_t r = 0; r < kRows; ++r) {
      const T x = at[r][k * depth_step];
      for (int64_t j = 0; j < kColumns; ++j) sums[r][j] += x * panel[j];
    }
}
MX_CLONES void tile_of(double (&sums)[kRows][kColumns], const double* a, int64_t row_step, int64_t depth_step,
                       const double* panel, int64_t rows, int64_t depth) {
  tile(sums, a, row_step, depth_step, panel, rows, depth);
}
MX_CLONES void tile_of(float (&sums)[kRows][kColumns], const float* a, int64_t row_step, int64_t depth_step,
                       const float* panel, int64_t rows, int64_t depth) {
  tile(sums, a, row_step, depth_step, panel, rows, depth);
}

class ProductPlan final : public TypedPlan<ProductPlan> {
 public:
  ProductPlan(std::vector<Spec> inputs, std::vector<Spec> outputs, const ProductOptions& options)
      : TypedPlan(inputs, outputs, outputs[0].dtype, options.batch * options.m * options.n * std::max<int64_t>(options.k / 8, 1)),
        o_(options),
        panel_(add_thread_scratch(static_cast<size_t>(o_.k * kColumns) * (type_ == F64 ? sizeof(double) : sizeof(float)))) {}

  template <class T>
  void compute(const Call& call) const {
    Result<T> result(*this, call, 0);
    if (result.data() == nullptr || outputs_[0].size() == 0) return;
    const T *a = read<T>(call, 0), *b = read<T>(call, 1);
    const int64_t panels = (o_.n + kColumns - 1) / kColumns;
    parallel_for(o_.batch * panels, 1, [&](int64_t begin, int64_t end, int thread) {
      T* panel = panel_.of<T>(call, thread);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / panels, first = task % panels * kColumns, n = std::min(kColumns, o_.n - first);
        pack(panel, b + i * o_.k * o_.n, first, n);
        multiply(a + i * o_.m * o_.k, panel, result.data() + i * o_.m * o_.n + first, n);
      }
    });
    result.deliver();
  }

 private:
  template <class T>
  void pack(T* panel, const T* b, int64_t first, int64_t n) const {
    const int64_t depth_step = o_.transpose_b ? 1 : o_.n, column_step = o_.transpose_b ? o_.k : 1;
    b += first * column_step;
    for (int64_t k = 0; k < o_.k; ++k, panel += kColumns) {
      for (int64_t j = 0; j < n; ++j) panel[j] = b[k * depth_step + j * column_step];
      std::fill(panel + n, panel + kColumns, T(0));
    }
  }

  template <class T>
  void multiply(const T* a, const T* panel, T* to, int64_t n) const {
    const int64_t row_step = o_.transpose_a ? 1 : o_.k, depth_step = o_.transpose_a ? o_.m : 1;
    alignas(64) T sums[kRows][kColumns];
    for (int64_t row = 0; row < o_.m; row += kRows) {
      const int64_t rows = std::min(kRows, o_.m - row);
      tile_of(sums, a + row * row_step, row_step, depth_step, panel, rows, o_.k);
      for (int64_t r = 0; r < rows; ++r) std::copy_n(sums[r], n, to + (row + r) * o_.n);
    }
  }

  const ProductOptions o_;
  const PerThread panel_;  // of b
};

}  // namespace

PlanPtr make_product_plan(std::vector<Spec> inputs, std::vector<Spec> outputs, const ProductOptions& o) {
  fits(inputs.size() == 2 && outputs.size() == 1 && o.batch >= 0 && o.m >= 0 && o.k >= 0 && o.n >= 0 &&
           inputs[0].size() == o.batch * o.m * o.k && inputs[1].size() == o.batch * o.k * o.n &&
           outputs[0].size() == o.batch * o.m * o.n,
       "product");
  return std::make_unique<ProductPlan>(std::move(inputs), std::move(outputs), o);
}

}  // namespace mx::cpu
