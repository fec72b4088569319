// SPDX-License-Identifier: Apache-2.0
//
// Convolutions in float64 whose groups have one channel, channels first: products of matrices would be as thin as a
// row.  Each thread takes planes of its own, and reads their windows in padded copies.
#pragma once

#include <vector>

#include "common/plan.hpp"
#include "convolution/padded_image.hpp"
#include "convolution/window_operands.hpp"

namespace mx::cpu {

// One tensor of a convolution from the other and the weights.
class DepthwiseProduct {
 public:
  static bool suits(const ConvolutionGeometry& geometry, bool to_large, const std::vector<Gather>& gathers);
  DepthwiseProduct(const ConvolutionGeometry& geometry, bool to_large, const std::vector<Gather>& gathers);

  size_t bytes() const;  // of scratch memory, of every thread
  void run(const Call& call, const double* source, const double* weight, const ConvolutionResult<double>& result,
           const PerThread& scratch) const;

 private:
  // Columns that are computed together, and which of them are positions.
  struct Block {
    int64_t column;
    std::vector<PaddedImage::Run> runs;
  };
  struct Part {
    Gather gather;
    std::vector<int64_t> lines;
    std::vector<Block> blocks;
  };
  void run_part(const Part& part, int64_t plane, const double* weight, const ConvolutionResult<double>& result,
                double* image) const;

  const ConvolutionGeometry geometry_;
  const bool to_large_;
  const int64_t from_, made_;  // channels of a group of the source and of the result
  const PaddedImage image_;
  std::vector<Part> parts_;
};

// The gradient of the weights.
class DepthwiseFilterGradient {
 public:
  static bool suits(const ConvolutionGeometry& geometry, const Gather& gather);
  DepthwiseFilterGradient(const ConvolutionGeometry& geometry, const Gather& gather);

  size_t bytes() const;
  void run(const Call& call, const double* large, const double* small, double* to, bool add,
           const PerThread& scratch) const;

 private:
  void run_group(int64_t group, const double* large, const double* small, double* to, double* image) const;

  const ConvolutionGeometry geometry_;
  const PaddedImage image_;
  const int64_t length_;  // of a line, in whole vectors
  std::vector<PaddedImage::Run> runs_;
  std::vector<int64_t> lines_;  // in whole tiles
  std::vector<int64_t> mask_;
};

}  // namespace mx::cpu
