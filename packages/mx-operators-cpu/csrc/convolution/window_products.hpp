// SPDX-License-Identifier: Apache-2.0
//
// Convolutions in float64 and their gradients as matrix products over windows, or by Winograd's algorithm.
#pragma once

#include <optional>
#include <vector>

#include "convolution/depthwise_planes.hpp"
#include "convolution/padded_products.hpp"
#include "convolution/window_operands.hpp"
#include "convolution/winograd_products.hpp"

namespace mx::cpu {

// One tensor of a convolution from the other and the weights.
class WindowProduct {
 public:
  // `to_large`: the large tensor from the small one.
  WindowProduct(const ConvolutionGeometry& geometry, bool to_large, int threads);

  size_t scratch_bytes() const;  // of every thread
  size_t shared_bytes() const { return winograd_ ? winograd_->bytes() : padded_ ? padded_->bytes() : 0; }
  // The source convolved with the weights.
  void run(const Call& call, const double* source, const double* weight, const ConvolutionResult<double>& result,
           const PerThread& panels, double* shared) const;

 private:
  struct Part {
    Gather gather;
    Gemm<double> gemm;
    int64_t first_task;
  };
  void run_task(const Part& part, int64_t task, const double* source, const double* weight,
                const ConvolutionResult<double>& result, double* panels) const;

  const ConvolutionGeometry geometry_;
  const bool to_large_;
  std::vector<Part> parts_;
  int64_t tasks_ = 0;
  std::optional<WinogradProduct> winograd_;    // where that is faster
  std::optional<DepthwiseProduct> depthwise_;  // likewise
  std::optional<PaddedProduct<double>> padded_;        // likewise
};

// The gradient of the weights.
class FilterGradient {
 public:
  FilterGradient(const ConvolutionGeometry& geometry, int threads);

  size_t scratch_bytes() const;  // of every thread
  size_t shared_bytes() const { return winograd_ ? winograd_->bytes() : padded_ ? padded_->bytes() : 0; }
  void run(const Call& call, const double* large, const double* small, double* to, bool add, const PerThread& panels,
           double* shared) const;

 private:
  const ConvolutionGeometry geometry_;
  const Gather gather_;
  const Gemm<double> gemm_;
  std::optional<WinogradFilterGradient> winograd_;
  std::optional<DepthwiseFilterGradient> depthwise_;
  std::optional<PaddedFilterGradient> padded_;
};

}  // namespace mx::cpu
