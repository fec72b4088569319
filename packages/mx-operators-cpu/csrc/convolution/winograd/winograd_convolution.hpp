// SPDX-License-Identifier: Apache-2.0
//
// A convolution, or the gradient of its data, as products of transformed tensors. `T`: float or double.
#pragma once

#include "convolution/winograd/problem.hpp"

namespace mx::cpu {

// Elements of the transformed filters.
template <class T>
int64_t filter_points_size(const WinogradProblem& problem);
template <class T>
void make_filter_points(const WinogradProblem& problem, const T* filters, const FilterLayout& layout, T* points);

// How a convolution is cut into groups of tiles, for a team of threads.
template <class T>
class MinimalConvolution {
 public:
  // `ready`: it gets filters that make_filter_points made; else it transforms them itself.
  MinimalConvolution(const WinogradProblem& problem, const FilterLayout& layout, bool ready, int threads);
  int64_t workspace_size() const;  // elements
  void run(const T* data, const T* filters, const Epilogue<T>& epilogue, T* out, T* workspace) const;

 private:
  struct Space;
  Space space(T* workspace, int copy) const;
  int64_t spaces_size() const;
  void transform_tiles(const T* data, int64_t first, int64_t begin, int64_t end, const Space& space) const;
  void multiply_panel(const T* panel_points, int64_t panel, int64_t point, int64_t tiles, const Space& space) const;
  void deliver_tiles(int64_t first, int64_t begin, int64_t end, const Epilogue<T>& epilogue, T* out,
                     const Space& space) const;
  void run_apart(const T* data, const T* points, const Epilogue<T>& epilogue, T* out, T* workspace) const;
  void run_together(const T* data, const T* points, const Epilogue<T>& epilogue, T* out, T* workspace) const;
  void run_by_panels(const T* data, const T* filters, const Epilogue<T>& epilogue, T* out, T* workspace) const;

  WinogradProblem problem_;
  FilterLayout layout_;
  bool ready_;
  bool apart_;      // every thread has groups of its own; else all work on one
  bool by_panels_;  // every thread transforms the filters that it then multiplies, while they are in its cache
  int64_t group_;   // tiles
  int threads_;
};

extern template class MinimalConvolution<float>;
extern template class MinimalConvolution<double>;

}  // namespace mx::cpu
