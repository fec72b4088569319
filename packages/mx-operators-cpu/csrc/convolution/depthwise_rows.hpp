// SPDX-License-Identifier: Apache-2.0
//
// Convolutions in float64 whose groups have one channel, channels first: products of matrices would be as thin as a
// row, so rows of images are added up tap by tap.
#pragma once

#include "convolution/window_gather.hpp"

namespace mx::cpu {

class DepthwiseRows {
 public:
  // Whether it is for such a convolution.
  static bool suits(const ConvolutionGeometry& g) { return g.channels == 1 && g.filters <= 4 && !g.channels_last; }

  explicit DepthwiseRows(const ConvolutionGeometry& geometry) : g_(geometry) {}

  // to = the other tensor convolved with the weights, plus `bias` per channel unless nullptr; or to += that.
  void to_small(const double* large, const double* weight, const double* bias, double* to, bool add) const;
  void to_large(const double* small, const double* weight, const double* bias, double* to, bool add) const;
  void filter_gradient(const double* large, const double* small, double* to, bool add) const;

 private:
  template <class Body>
  void for_rows(const Body& body) const;

  const ConvolutionGeometry g_;
};

}  // namespace mx::cpu
