// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a convolution's filters, as sums of products of transformed tensors. `T`: float or double.
#pragma once

#include "convolution/winograd/problem.hpp"

namespace mx::cpu {

template <class T>
class WinogradGradient {
 public:
  WinogradGradient(const WinogradProblem& problem, int threads);
  int64_t workspace_size() const;  // elements
  void run(const T* data, const T* out_grad, T* gradient, const FilterLayout& layout, T* workspace) const;

 private:
  struct Space;
  Space space(T* workspace, int copy) const;
  void transform_tiles(const T* data, const T* out_grad, int64_t first, int64_t begin, int64_t end,
                       const Space& space) const;
  void multiply_panel(int64_t channel, int64_t point, int64_t tiles, bool add, T* sums, const Space& space) const;
  int sum_apart(const T* data, const T* out_grad, T* workspace) const;
  int sum_together(const T* data, const T* out_grad, T* workspace) const;
  void run_by_panels(const T* data, const T* out_grad, T* gradient, const FilterLayout& layout, T* workspace) const;
  static void deliver(const T* sums, int64_t step, int64_t filter, int64_t first, int64_t n, T* gradient,
                      const FilterLayout& layout);

  WinogradProblem problem_;
  bool apart_;      // every thread sums groups of its own; else all work on one
  bool by_panels_;  // every thread transforms the sums that it made, while they are in its cache
  int64_t group_;   // tiles
  int threads_;
};

extern template class WinogradGradient<float>;
extern template class WinogradGradient<double>;

}  // namespace mx::cpu
