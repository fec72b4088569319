// SPDX-License-Identifier: Apache-2.0
//
// A convolution, or the gradient of its data, as products of transformed tensors.
#pragma once

#include "convolution/winograd/problem.hpp"

namespace mx::cpu {

// Floats of the transformed filters.
int64_t filter_points_size(const WinogradProblem& problem);
void make_filter_points(const WinogradProblem& problem, const float* filters, const FilterLayout& layout, float* points);

// How a convolution is cut into groups of tiles, for a team of threads.
class MinimalConvolution {
 public:
  // `ready`: it gets filters that make_filter_points made; else it transforms them itself.
  MinimalConvolution(const WinogradProblem& problem, const FilterLayout& layout, bool ready, int threads);
  int64_t workspace_size() const;  // floats
  void run(const float* data, const float* filters, const Epilogue& epilogue, float* out, float* workspace) const;

 private:
  struct Space;
  Space space(float* workspace, int copy) const;
  int64_t spaces_size() const;
  void transform_tiles(const float* data, int64_t first, int64_t begin, int64_t end, const Space& space) const;
  void multiply_panel(const float* panel_points, int64_t panel, int64_t point, int64_t tiles, const Space& space) const;
  void deliver_tiles(int64_t first, int64_t begin, int64_t end, const Epilogue& epilogue, float* out,
                     const Space& space) const;
  void run_apart(const float* data, const float* points, const Epilogue& epilogue, float* out, float* workspace) const;
  void run_together(const float* data, const float* points, const Epilogue& epilogue, float* out,
                    float* workspace) const;
  void run_by_panels(const float* data, const float* filters, const Epilogue& epilogue, float* out,
                     float* workspace) const;

  WinogradProblem problem_;
  FilterLayout layout_;
  bool ready_;
  bool apart_;      // every thread has groups of its own; else all work on one
  bool by_panels_;  // every thread transforms the filters that it then multiplies, while they are in its cache
  int64_t group_;   // tiles
  int threads_;
};

}  // namespace mx::cpu
