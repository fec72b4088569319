// SPDX-License-Identifier: Apache-2.0
#include "convolution/winograd/multiply.hpp"

#include "convolution/winograd/transforms.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kRows = 6;  // with kPanel columns: 24 sums, which fill the registers

struct Product {
  Matrix a;
  const float* b;
  int64_t b_row, depth;
  float* out;
  int64_t out_row;
  bool add;
};

// Rows [first, first + Rows) of a product that is Vectors * kLanes wide.
template <int64_t Rows, int64_t Vectors>
MX_AVX512_INLINE void block(const Product& p, int64_t first) {
  const float* a = p.a.data + first * p.a.row;
  float* out = p.out + first * p.out_row;
  Lanes sums[Rows][Vectors];
  for (int64_t r = 0; r < Rows; ++r)
    for (int64_t v = 0; v < Vectors; ++v) sums[r][v] = p.add ? load(out + r * p.out_row + v * kLanes) : Lanes{};
  for (int64_t d = 0; d < p.depth; ++d) {
    Lanes b[Vectors];
    for (int64_t v = 0; v < Vectors; ++v) b[v] = load(p.b + d * p.b_row + v * kLanes);
    for (int64_t r = 0; r < Rows; ++r) {
      const Lanes x = spread(a[r * p.a.row + d * p.a.column]);
      for (int64_t v = 0; v < Vectors; ++v) sums[r][v] += x * b[v];
    }
  }
  for (int64_t r = 0; r < Rows; ++r)
    for (int64_t v = 0; v < Vectors; ++v) store(out + r * p.out_row + v * kLanes, sums[r][v]);
}

template <int64_t Vectors>
MX_AVX512 void all_rows(const Product& p, int64_t rows) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) block<kRows, Vectors>(p, r);
  switch (rows - r) {
    case 5: return block<5, Vectors>(p, r);
    case 4: return block<4, Vectors>(p, r);
    case 3: return block<3, Vectors>(p, r);
    case 2: return block<2, Vectors>(p, r);
    case 1: return block<1, Vectors>(p, r);
    default: return;
  }
}

}  // namespace

void multiply(const Matrix& a, const float* b, int64_t b_row, int64_t rows, int64_t depth, int64_t width, float* out,
              int64_t out_row, bool add) {
  static_assert(kPanel == 4 * kLanes, "a case for every width");
  const Product product{a, b, b_row, depth, out, out_row, add};
  switch (width / kLanes) {
    case 4: return all_rows<4>(product, rows);
    case 3: return all_rows<3>(product, rows);
    case 2: return all_rows<2>(product, rows);
    default: return all_rows<1>(product, rows);
  }
}

}  // namespace mx::cpu
