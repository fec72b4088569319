// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a convolution's filters, as sums of products of transformed tensors.
#pragma once

#include "convolution/winograd/problem.hpp"

namespace mx::cpu {

class WinogradGradient {
 public:
  WinogradGradient(const WinogradProblem& problem, int threads);
  int64_t workspace_size() const;  // floats
  void run(const float* data, const float* out_grad, float* gradient, const FilterLayout& layout,
           float* workspace) const;

 private:
  struct Space;
  Space space(float* workspace, int copy) const;
  void transform_tiles(const float* data, const float* out_grad, int64_t first, int64_t begin, int64_t end,
                       const Space& space) const;
  void multiply_panel(int64_t channel, int64_t point, int64_t tiles, bool add, float* sums, const Space& space) const;
  int sum_apart(const float* data, const float* out_grad, float* workspace) const;
  int sum_together(const float* data, const float* out_grad, float* workspace) const;
  void run_by_panels(const float* data, const float* out_grad, float* gradient, const FilterLayout& layout,
                     float* workspace) const;
  static void deliver(const float* sums, int64_t step, int64_t filter, int64_t first, int64_t n, float* gradient,
                      const FilterLayout& layout);

  WinogradProblem problem_;
  bool apart_;      // every thread sums groups of its own; else all work on one
  bool by_panels_;  // every thread transforms the sums that it made, while they are in its cache
  int64_t group_;   // tiles
  int threads_;
};

}  // namespace mx::cpu
