// SPDX-License-Identifier: Apache-2.0
//
// The large tensor of a convolution with weights that are not finite: products over windows multiply them by the zeros
// outside the small tensor, which makes NaN where MXNet, which adds every element's share, has none.
#pragma once

#include "convolution/window_operands.hpp"

namespace mx::cpu {

template <class T>
bool weights_are_finite(const ConvolutionGeometry& geometry, const T* weight);

// Every element of the small tensor, times the weights, added to where its window lies.
template <class T>
void scatter_products(const ConvolutionGeometry& geometry, const T* small, const T* weight,
                      const ConvolutionResult<T>& result);

extern template bool weights_are_finite(const ConvolutionGeometry&, const float*);
extern template bool weights_are_finite(const ConvolutionGeometry&, const double*);
extern template void scatter_products(const ConvolutionGeometry&, const float*, const float*,
                                      const ConvolutionResult<float>&);
extern template void scatter_products(const ConvolutionGeometry&, const double*, const double*,
                                      const ConvolutionResult<double>&);

}  // namespace mx::cpu
