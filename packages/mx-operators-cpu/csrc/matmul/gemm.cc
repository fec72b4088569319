// SPDX-License-Identifier: Apache-2.0
#include "matmul/gemm.hpp"

#include <algorithm>

#include "common/clones.hpp"
#include "common/lanes.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kPanelBytes = 24 << 10;  // of B: stays in the nearest cache
constexpr int64_t kMostRows = 256;         // of A, packed: stays in the second one
constexpr int64_t kTaskMacs = 1 << 15;     // below it threads cost more than they do
constexpr int64_t kTasksOfThread = 3;      // that differ: one thread's last task keeps the others waiting

constexpr int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }
constexpr int64_t rounded(int64_t n, int64_t to) { return pieces(n, to) * to; }

constexpr int64_t kSquare = 4;

// to[k * width + i] = row(i)[k] for a square of both.
template <class T, class Row>
MX_INLINE void transpose_square(T* to, int64_t width, const Row& row) {
  using Four = typename LanesOf<T, kSquare * sizeof(T)>::Vector;
  using Order = typename LanesOf<T, kSquare * sizeof(T)>::Bits;
  Four r[kSquare];
  for (int64_t i = 0; i < kSquare; ++i) __builtin_memcpy(&r[i], row(i), sizeof r[i]);
  const Four a = __builtin_shuffle(r[0], r[1], Order{0, 4, 2, 6}), b = __builtin_shuffle(r[0], r[1], Order{1, 5, 3, 7});
  const Four c = __builtin_shuffle(r[2], r[3], Order{0, 4, 2, 6}), d = __builtin_shuffle(r[2], r[3], Order{1, 5, 3, 7});
  const Four t[kSquare] = {__builtin_shuffle(a, c, Order{0, 1, 4, 5}), __builtin_shuffle(b, d, Order{0, 1, 4, 5}),
                           __builtin_shuffle(a, c, Order{2, 3, 6, 7}), __builtin_shuffle(b, d, Order{2, 3, 6, 7})};
  for (int64_t k = 0; k < kSquare; ++k) __builtin_memcpy(to + k * width, &t[k], sizeof t[k]);
}

// Lines that are contiguous along the depth.
template <class T>
MX_INLINE void pack_lines(T* panel, int64_t width, const T* from, int64_t line_step, int64_t lines,
                                int64_t depth) {
  int64_t i = 0;
  for (; i + kSquare <= lines; i += kSquare) {
    const T* line = from + i * line_step;
    int64_t k = 0;
    for (; k + kSquare <= depth; k += kSquare)
      transpose_square(panel + k * width + i, width, [=](int64_t j) MX_INLINE_LAMBDA { return line + j * line_step + k; });
    for (; k < depth; ++k)
      for (int64_t j = 0; j < kSquare; ++j) panel[k * width + i + j] = line[j * line_step + k];
  }
  for (; i < lines; ++i)
    for (int64_t k = 0; k < depth; ++k) panel[k * width + i] = from[i * line_step + k];
}
MX_CLONES(void, pack_along_depth, (float* panel, int64_t width, const float* from, int64_t line_step, int64_t lines,
                                   int64_t depth), (panel, width, from, line_step, lines, depth)) {
  pack_lines(panel, width, from, line_step, lines, depth);
}

// to = sums + start + per_column, or to += that.
template <class T>
MX_INLINE void put(T* to, const T* sums, int64_t n, bool add, T start, const T* per_column) {
  if (add) {
    for (int64_t j = 0; j < n; ++j) to[j] += sums[j] + start;
  } else {
    for (int64_t j = 0; j < n; ++j) to[j] = sums[j] + start;
  }
  if (per_column == nullptr) return;
  for (int64_t j = 0; j < n; ++j) to[j] += per_column[j];
}
MX_CLONES(void, put_row, (double* to, const double* sums, int64_t n, bool add, double start,
                          const double* per_column), (to, sums, n, add, start, per_column)) {
  put(to, sums, n, add, start, per_column);
}
MX_CLONES(void, put_row, (float* to, const float* sums, int64_t n, bool add, float start, const float* per_column),
          (to, sums, n, add, start, per_column)) {
  put(to, sums, n, add, start, per_column);
}

}  // namespace

MX_CLONES(void, pack_along_depth, (double* panel, int64_t width, const double* from, int64_t line_step, int64_t lines,
                                   int64_t depth), (panel, width, from, line_step, lines, depth)) {
  pack_lines(panel, width, from, line_step, lines, depth);
}

MX_CLONES(void, pack_squares, (double* panel, int64_t width, const double* const from[4], int64_t first,
                               int64_t depth), (panel, width, from, first, depth)) {
  for (int64_t k = 0; k < depth; k += kSquare)
    transpose_square(panel + k * width, width,
                     [=](int64_t i) MX_INLINE_LAMBDA { return from[i] + first + k; });
}

template <class T>
void Rows<T>::put(int64_t row, int64_t column, const T* sums, int64_t n, bool first) const {
  const T start = first && per_row_ != nullptr ? per_row_[row] : T(0);
  put_row(data_ + row * row_step_ + column, sums, n, add_ || !first, start,
          first && per_column_ != nullptr ? per_column_ + column : nullptr);
}

template <class T>
void StridedFactor<T>::pack(T* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const {
  const T* from = data_ + first * line_step_ + begin * depth_step_;
  if (depth_step_ == 1 && line_step_ != 1) {
    pack_along_depth(panel, width, from, line_step_, lines, depth);
  } else {
    for (int64_t k = 0; k < depth; ++k) {
      T* to = panel + k * width;
      const T* at = from + k * depth_step_;
      if (line_step_ == 1) std::copy_n(at, lines, to);
      else for (int64_t i = 0; i < lines; ++i) to[i] = at[i * line_step_];
    }
  }
  if (lines < width)
    for (int64_t k = 0; k < depth; ++k) std::fill(panel + k * width + lines, panel + (k + 1) * width, T(0));
}

template <class T>
Gemm<T>::Gemm(int64_t m, int64_t n, int64_t k, int64_t products, int threads)
    : tile_(gemm_tile_of<T>()), m_(m), n_(n), k_(k), rows_(rounded(std::min(m, kMostRows), tile_.rows)),
      columns_(rounded(n, tile_.columns)) {
  const int64_t most = kPanelBytes / (tile_.columns * static_cast<int64_t>(sizeof(T)));
  depth_ = std::max<int64_t>(pieces(k, std::max<int64_t>(pieces(k, most), 1)), 1);
  if (m == 0 || n == 0) return;  // no tasks
  const auto count = [&] { return products * pieces(m, rows_) * pieces(n, columns_); };
  // Smaller tasks pack more: where every thread has as much to do, one for each is best.
  const auto enough = [&] {
    const int64_t computed = rounded(m, rows_) * rounded(n, columns_);
    const bool alike = count() % threads == 0 && computed - m * n <= computed / 8;
    return alike || count() >= kTasksOfThread * threads;
  };
  while (threads > 1 && count() > 0 && !enough() && rows_ * columns_ * k > kTaskMacs) {
    const bool wide = columns_ > tile_.columns, tall = rows_ > tile_.rows;
    if (wide && (columns_ >= rows_ || !tall)) columns_ = rounded(columns_ / 2, tile_.columns);
    else if (tall) rows_ = rounded(rows_ / 2, tile_.rows);
    else break;
  }
  row_blocks_ = pieces(m, rows_);
  column_blocks_ = pieces(n, columns_);
}

template <class T>
size_t Gemm<T>::scratch_bytes() const {
  return static_cast<size_t>((rows_ + tile_.columns) * depth_) * sizeof(T);
}

template <class T>
void Gemm<T>::run(int64_t task, const Factor<T>& a, const Factor<T>& b, const Destination<T>& c, T* scratch) const {
  const int64_t row = task / column_blocks_ * rows_, column = task % column_blocks_ * columns_;
  const int64_t rows = std::min(rows_, m_ - row), columns = std::min(columns_, n_ - column);
  T* panel = scratch + rows_ * depth_;  // of b
  alignas(64) T sums[kLargestTile];
  int64_t k = 0;
  do {  // once where nothing is summed
    const int64_t depth = std::min(depth_, k_ - k);
    for (int64_t i = 0; i < rows; i += tile_.rows)
      a.pack(scratch + i * depth, tile_.rows, row + i, std::min(tile_.rows, rows - i), k, depth);
    for (int64_t j = 0; j < columns; j += tile_.columns) {
      const int64_t width = std::min(tile_.columns, columns - j);
      const T* const ready = b.packed(column + j, k);
      if (ready == nullptr) b.pack(panel, tile_.columns, column + j, width, k, depth);
      for (int64_t i = 0; i < rows; i += tile_.rows) {
        tile_.run(sums, scratch + i * depth, ready != nullptr ? ready : panel, depth);
        const int64_t height = std::min(tile_.rows, rows - i);
        for (int64_t r = 0; r < height; ++r) c.put(row + i + r, column + j, sums + r * tile_.columns, width, k == 0);
      }
    }
    k += depth;
  } while (k < k_);
}

template class StridedFactor<float>;
template class StridedFactor<double>;
template class Rows<float>;
template class Rows<double>;
template class Gemm<float>;
template class Gemm<double>;

}  // namespace mx::cpu
