// SPDX-License-Identifier: Apache-2.0
//
// Weights and results of a convolution as matrix products take them.
#pragma once

#include "convolution/window_gather.hpp"

namespace mx::cpu {

// The weights as lines of channels of the large tensor, summed over filters and the taps of a part.
template <class T>
class TransposedFilters final : public Factor<T> {
 public:
  TransposedFilters(const ConvolutionGeometry& geometry, const Gather& gather, const T* weight)
      : geometry_(geometry), gather_(gather), weight_(weight) {}
  void pack(T* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const override;

 private:
  const ConvolutionGeometry& geometry_;
  const Gather& gather_;
  const T* weight_;
};

// The weights of a group, for the large tensor or for the small one.
template <class T>
class GroupWeights {
 public:
  GroupWeights(const ConvolutionGeometry& g, const Gather& gather, bool to_large, const T* weight, int64_t group)
      : to_large_(to_large), filters_(weight + group * g.filters * g.window(), g.window(), 1),
        transposed_(g, gather, weight + group * g.filters * g.window()) {}
  const Factor<T>& factor() const {
    return to_large_ ? static_cast<const Factor<T>&>(transposed_) : filters_;
  }

 private:
  const bool to_large_;
  const StridedFactor<T> filters_;
  const TransposedFilters<T> transposed_;
};

// Positions of a part, which do not follow each other in the large tensor.
template <class T>
class Scattered final : public Destination<T> {
 public:
  Scattered(const ConvolutionGeometry& geometry, const Gather& gather, const ImageSteps& steps, T* data, bool add,
            const T* bias)
      : geometry_(geometry), gather_(gather), steps_(steps), data_(data), add_(add), bias_(bias) {}
  void put(int64_t row, int64_t column, const T* sums, int64_t n, bool first) const override;

 private:
  int64_t place(int64_t position) const;

  const ConvolutionGeometry& geometry_;
  const Gather& gather_;
  const ImageSteps steps_;
  T* data_;
  const bool add_;
  const T* bias_;
};

// What a convolution makes: `bias`, unless nullptr, is added per channel.
template <class T>
struct ConvolutionResult {
  T* to;
  bool add;  // to what is there
  const T* bias;
};

// The part of an image and group of it that a gather makes.
template <class T>
class GroupResult {
 public:
  GroupResult(const ConvolutionGeometry& geometry, const Gather& gather, bool to_large,
              const ConvolutionResult<T>& result, int64_t image, int64_t group);
  const Destination<T>& target() const {
    return dense_ ? static_cast<const Destination<T>&>(rows_) : scattered_;
  }
  // Takes sums of n channels from `channel` on, `step` apart, at `count` positions that follow each other.  Where
  // channels are last, only of a part that is the whole; the sums are changed.
  void put_channels(int64_t channel, int64_t n, int64_t position, int64_t count, T* sums, int64_t step) const;

 private:
  const bool dense_, last_, add_;
  const ImageSteps steps_;
  T* const data_;
  const T* const bias_;
  const Scattered<T> scattered_;
  const Rows<T> rows_;
};

extern template class TransposedFilters<float>;
extern template class TransposedFilters<double>;
extern template class Scattered<float>;
extern template class Scattered<double>;
extern template class GroupResult<float>;
extern template class GroupResult<double>;

}  // namespace mx::cpu
