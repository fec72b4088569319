// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/multiply.hpp"

#include "convolution/winograd/transforms.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kRows = 6;  // with kPanel columns: 24 sums, which fill the registers

template <class T>
struct Product {
  Matrix<T> a;
  const T* b;
  int64_t b_row, depth;
  T* out;
  int64_t out_row;
  bool add;
};

// Rows [first, first + Rows) of a product that is Vectors * kLanesOf<T> wide.
template <class T, int64_t Rows, int64_t Vectors>
MX_AVX512_INLINE void block(const Product<T>& p, int64_t first) {
  using Vector = typename LanesOf<T>::Vector;
  constexpr int64_t kWide = kLanesOf<T>;
  const T* a = p.a.data + first * p.a.row;
  T* out = p.out + first * p.out_row;
  Vector sums[Rows][Vectors];
  for (int64_t r = 0; r < Rows; ++r)
    for (int64_t v = 0; v < Vectors; ++v) sums[r][v] = p.add ? load(out + r * p.out_row + v * kWide) : Vector{};
  for (int64_t d = 0; d < p.depth; ++d) {
    Vector b[Vectors];
    for (int64_t v = 0; v < Vectors; ++v) b[v] = load(p.b + d * p.b_row + v * kWide);
    for (int64_t r = 0; r < Rows; ++r) {
      const Vector x = spread(a[r * p.a.row + d * p.a.column]);
      for (int64_t v = 0; v < Vectors; ++v) sums[r][v] += x * b[v];
    }
  }
  for (int64_t r = 0; r < Rows; ++r)
    for (int64_t v = 0; v < Vectors; ++v) store(out + r * p.out_row + v * kWide, sums[r][v]);
}

template <class T, int64_t Vectors>
MX_AVX512 void all_rows(const Product<T>& p, int64_t rows) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) block<T, kRows, Vectors>(p, r);
  switch (rows - r) {
    case 5: return block<T, 5, Vectors>(p, r);
    case 4: return block<T, 4, Vectors>(p, r);
    case 3: return block<T, 3, Vectors>(p, r);
    case 2: return block<T, 2, Vectors>(p, r);
    case 1: return block<T, 1, Vectors>(p, r);
    default: return;
  }
}

}  // namespace

template <class T>
void multiply(const Matrix<T>& a, const T* b, int64_t b_row, int64_t rows, int64_t depth, int64_t width, T* out,
              int64_t out_row, bool add) {
  static_assert(kPanel<T> == 4 * kLanesOf<T>, "a case for every width");
  const Product<T> product{a, b, b_row, depth, out, out_row, add};
  switch (width / kLanesOf<T>) {
    case 4: return all_rows<T, 4>(product, rows);
    case 3: return all_rows<T, 3>(product, rows);
    case 2: return all_rows<T, 2>(product, rows);
    default: return all_rows<T, 1>(product, rows);
  }
}

template void multiply(const Matrix<float>&, const float*, int64_t, int64_t, int64_t, int64_t, float*, int64_t, bool);
template void multiply(const Matrix<double>&, const double*, int64_t, int64_t, int64_t, int64_t, double*, int64_t,
                       bool);

}  // namespace mx::cpu
