// SPDX-License-Identifier: Apache-2.0
//
// Weights and results of a convolution as matrix products take them.
#pragma once

#include "convolution/window_gather.hpp"

namespace mx::cpu {

// The weights as lines of channels of the large tensor, summed over filters and the taps of a part.
class TransposedFilters final : public Factor<double> {
 public:
  TransposedFilters(const ConvolutionGeometry& geometry, const Gather& gather, const double* weight)
      : geometry_(geometry), gather_(gather), weight_(weight) {}
  void pack(double* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const override;

 private:
  const ConvolutionGeometry& geometry_;
  const Gather& gather_;
  const double* weight_;
};

// The weights of a group, for the large tensor or for the small one.
class GroupWeights {
 public:
  GroupWeights(const ConvolutionGeometry& g, const Gather& gather, bool to_large, const double* weight, int64_t group)
      : to_large_(to_large), filters_(weight + group * g.filters * g.window(), g.window(), 1),
        transposed_(g, gather, weight + group * g.filters * g.window()) {}
  const Factor<double>& factor() const {
    return to_large_ ? static_cast<const Factor<double>&>(transposed_) : filters_;
  }

 private:
  const bool to_large_;
  const StridedFactor<double> filters_;
  const TransposedFilters transposed_;
};

// Positions of a part, which do not follow each other in the large tensor.
class Scattered final : public Destination<double> {
 public:
  Scattered(const ConvolutionGeometry& geometry, const Gather& gather, const ImageSteps& steps, double* data, bool add,
            const double* bias)
      : geometry_(geometry), gather_(gather), steps_(steps), data_(data), add_(add), bias_(bias) {}
  void put(int64_t row, int64_t column, const double* sums, int64_t n, bool first) const override;

 private:
  int64_t place(int64_t position) const;

  const ConvolutionGeometry& geometry_;
  const Gather& gather_;
  const ImageSteps steps_;
  double* data_;
  const bool add_;
  const double* bias_;
};

// What a convolution makes: `bias`, unless nullptr, is added per channel.
struct ConvolutionResult {
  double* to;
  bool add;  // to what is there
  const double* bias;
};

// The part of an image and group of it that a gather makes.
class GroupResult {
 public:
  GroupResult(const ConvolutionGeometry& geometry, const Gather& gather, bool to_large, const ConvolutionResult& result,
              int64_t image, int64_t group);
  const Destination<double>& target() const {
    return dense_ ? static_cast<const Destination<double>&>(rows_) : scattered_;
  }
  // Takes sums of n channels from `channel` on, `step` apart, at `count` positions that follow each other.  Where
  // channels are last, only of a part that is the whole; the sums are changed.
  void put_channels(int64_t channel, int64_t n, int64_t position, int64_t count, double* sums, int64_t step) const;

 private:
  const bool dense_, last_, add_;
  const ImageSteps steps_;
  double* const data_;
  const double* const bias_;
  const Scattered scattered_;
  const Rows<double> rows_;
};

}  // namespace mx::cpu
