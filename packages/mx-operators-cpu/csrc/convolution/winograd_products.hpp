// SPDX-License-Identifier: Apache-2.0
//
// Convolutions in float64 by Winograd's algorithm, and their gradients, where that is faster than products over
// windows.  It takes images with channels last; others are copied, a few at once where the copies of all would leave the
// caches.
#pragma once

#include <optional>

#include "convolution/window_operands.hpp"
#include "convolution/winograd/winograd_convolution.hpp"
#include "convolution/winograd/winograd_gradient.hpp"

namespace mx::cpu {

// One tensor of a convolution from the other and the weights.
class WinogradProduct {
 public:
  // `to_large`: the large tensor from the small one.  Nothing where it does not apply or is not faster.
  static std::optional<WinogradProduct> of(const ConvolutionGeometry& geometry, bool to_large, int threads);

  size_t bytes() const;  // of scratch memory, for all threads
  void run(const double* source, const double* weight, const ConvolutionResult<double>& result, double* scratch) const;

 private:
  WinogradProduct(const WinogradProblem& problem, const FilterLayout& layout, bool channels_last, int threads);
  bool at_once() const { return part_.images == images_; }
  int64_t workspace_size() const;

  int64_t images_;
  WinogradProblem part_;  // of all images, or of some
  FilterLayout layout_;
  bool channels_last_;
  MinimalConvolution<double> convolution_;
  std::optional<MinimalConvolution<double>> rest_;  // of fewer images
};

// The gradient of the weights.
class WinogradFilterGradient {
 public:
  static std::optional<WinogradFilterGradient> of(const ConvolutionGeometry& geometry, int threads);

  size_t bytes() const;
  void run(const double* large, const double* small, double* to, bool add, double* scratch) const;

 private:
  WinogradFilterGradient(const WinogradProblem& problem, const FilterLayout& layout, bool channels_last, int threads)
      : problem_(problem), layout_(layout), gradient_(problem, threads, channels_last) {}
  int64_t weights() const { return problem_.filters * problem_.channels * kFilter * kFilter; }

  WinogradProblem problem_;
  FilterLayout layout_;
  WinogradGradient<double> gradient_;
};

}  // namespace mx::cpu
