// SPDX-License-Identifier: Apache-2.0
//
// Convolutions in float64 with few filters, and their gradients: packing windows for a product would take as long as the
// product does, so it reads them in padded copies of the images.
#pragma once

#include <vector>

#include "convolution/padded_image.hpp"
#include "convolution/window_operands.hpp"

namespace mx::cpu {

// One tensor of a convolution from the other and the weights.
template <class T>
class PaddedProduct {
 public:
  struct Limits {
    int64_t fewest, most;  // channels of the result, in a group
    double columns;        // that are computed for a position
  };
  // Whether it can be done with small copies, within `limits`.
  static bool suits(const ConvolutionGeometry& geometry, bool to_large, const std::vector<Gather>& gathers,
                    const Limits& limits);
  PaddedProduct(const ConvolutionGeometry& geometry, bool to_large, const std::vector<Gather>& gathers);

  size_t bytes() const;  // of scratch memory, for all threads
  double macs() const;   // that it computes: of whole tiles, which are more than the convolution has
  void run(const T* source, const T* weight, const ConvolutionResult<T>& result, T* scratch) const;

 private:
  struct Part {
    Gather gather;
    std::vector<int64_t> lines;
    int64_t columns, blocks;
    int64_t first_task;
    int64_t weights;  // where those of a group begin
  };
  int64_t depth(const Part& part) const { return static_cast<int64_t>(part.lines.size()); }
  int64_t images_size() const { return geometry_.batch * geometry_.groups * image_.size(); }
  void pack(const Part& part, int64_t group, const T* weight, T* packed) const;
  void run_block(const Part& part, int64_t task, const ConvolutionResult<T>& result, const T* images,
                 const T* packed) const;

  const ConvolutionGeometry geometry_;
  const bool to_large_;
  const int64_t from_, made_, rows_;  // channels of the source and of the result; the latter in whole tiles
  const PaddedImage image_;
  std::vector<Part> parts_;
  int64_t tasks_ = 0, weights_ = 0;  // elements of the packed weights of a group
};

extern template class PaddedProduct<float>;
extern template class PaddedProduct<double>;

// The gradient of the weights.
class PaddedFilterGradient {
 public:
  static bool suits(const ConvolutionGeometry& geometry, const Gather& gather);
  PaddedFilterGradient(const ConvolutionGeometry& geometry, const Gather& gather);

  size_t bytes() const;
  void run(const double* large, const double* small, double* to, bool add, double* scratch) const;

 private:
  int64_t images_size() const { return geometry_.batch * geometry_.groups * image_.size(); }
  void copy_heads(const double* small, int64_t row, double* to) const;
  void run_tile(int64_t task, const double* images, const double* heads, double* to, bool add) const;

  const ConvolutionGeometry geometry_;
  const Gather gather_;
  const PaddedImage image_;
  const int64_t rows_;              // filters, in whole tiles
  const int64_t columns_, length_;  // of a line; in whole vectors
  std::vector<int64_t> lines_;      // in whole tiles
  std::vector<int64_t> mask_;       // of the columns that are positions
};

}  // namespace mx::cpu
