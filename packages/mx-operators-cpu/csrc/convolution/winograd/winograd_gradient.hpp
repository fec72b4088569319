// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a convolution's filters, as sums of products of transformed tensors. `T`: float or double.
#pragma once

#include "convolution/winograd/problem.hpp"
#include "convolution/winograd/row_window.hpp"

namespace mx::cpu {

template <class T>
class WinogradGradient {
 public:
  // Images with channels first are copied, some rows at once. There may be no pixels, or no results.
  WinogradGradient(const WinogradProblem& problem, int threads, bool channels_last = true);
  int64_t workspace_size() const;  // elements
  void run(const T* data, const T* out_grad, T* gradient, const FilterLayout& layout, T* workspace) const;

 private:
  struct Space;
  struct Tensors {
    const T *data, *out_grad;
  };
  struct Reached {
    Pixels<T> data, out_grad;
  };
  struct Windows;
  Space space(T* workspace, int copy) const;
  int64_t spaces_size() const;
  int64_t rows_size() const;
  Windows windows(const Tensors& given, T* workspace, int copy) const;
  void transform_tiles(const Reached& tensors, int64_t first, int64_t begin, int64_t end,
                       const Space& space) const;
  void multiply_panel(int64_t channel, int64_t point, int64_t tiles, bool add, T* sums, const Space& space) const;
  void clear(T* gradient, const FilterLayout& layout) const;
  int sum_apart(const Tensors& given, T* workspace) const;
  int sum_together(const Tensors& given, T* workspace) const;
  void run_by_panels(const Tensors& given, T* gradient, const FilterLayout& layout, T* workspace) const;
  static void deliver(const T* sums, int64_t step, int64_t filter, int64_t first, int64_t n, T* gradient,
                      const FilterLayout& layout);

  WinogradProblem problem_;
  bool apart_;      // every thread sums groups of its own; else all work on one
  bool by_panels_;  // every thread transforms the sums that it made, while they are in its cache
  int64_t group_;   // tiles
  int64_t rows_, out_rows_;  // that there is room for copies of; 0: the tensors have channels last
  int threads_;
};

extern template class WinogradGradient<float>;
extern template class WinogradGradient<double>;

}  // namespace mx::cpu
