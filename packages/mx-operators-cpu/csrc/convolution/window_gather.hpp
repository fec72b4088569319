// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as matrix products whose one factor is made of windows while it is packed: no column matrix is stored.
//
// A convolution lies between a large tensor and a small one, which has a value per window.  Into the small one it
// gathers windows.  Into the large one (gradients of data, deconvolution) it gathers, too: positions that have the same
// remainder by the stride see the same taps, and make a dense convolution of their own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/shape.hpp"
#include "convolution/convolution.hpp"
#include "matmul/gemm.hpp"

namespace mx::cpu {

// One spatial axis between the tensors; missing axes have extents of 1.
struct ConvolutionAxis {
  int64_t large = 1, small = 1, kernel = 1, stride = 1, dilate = 1, pad = 0;
};

// How the elements of a tensor of images lie.
struct ImageSteps {
  int64_t image, group, channel, position;
};

// The tensors of a convolution in groups.  Weights: (groups * filters, channels, taps), or (…, taps, channels) where
// channels are last.
struct ConvolutionGeometry {
  int64_t batch, groups;
  int64_t channels, filters;  // of one group: of the large and of the small tensor
  bool channels_last;
  bool winograd;            // Winograd's algorithm is allowed
  ConvolutionAxis axes[3];  // depth, height, width

  // Throws Unsupported where the sizes do not agree.
  ConvolutionGeometry(const ConvolutionOptions& options, const Spec& large, const Spec& weight, const Spec& small);

  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  int64_t large_area() const { return axes[0].large * axes[1].large * axes[2].large; }
  int64_t small_area() const { return axes[0].small * axes[1].small * axes[2].small; }
  int64_t window() const { return channels * taps(); }  // elements of a filter
  ImageSteps large() const { return steps(channels, large_area()); }
  ImageSteps small() const { return steps(filters, small_area()); }
  double macs() const;

 private:
  ImageSteps steps(int64_t count, int64_t area) const {
    const int64_t all = groups * count;
    if (channels_last) return {all * area, count, 1, all};
    return {all * area, count * area, area, 1};
  }
};

// Which elements of a source every position sees: along an axis, position * stride + offset of the tap.
struct Gather {
  struct Axis {
    int64_t positions, stride, extent;
  };
  std::array<Axis, 3> axes;
  std::vector<std::array<int64_t, 3>> taps;  // their offsets
  std::vector<int64_t> tap_index;            // which taps of the filter they are
  std::array<int64_t, 3> first, step;        // where the positions lie in the result, per axis

  int64_t positions() const { return axes[0].positions * axes[1].positions * axes[2].positions; }
  int64_t n_taps() const { return static_cast<int64_t>(taps.size()); }
};

// Whether its positions are all of the result, in order.
inline bool is_dense(const Gather& gather) { return gather.step == std::array<int64_t, 3>{1, 1, 1}; }

// Windows of the large tensor, for the small one.
Gather small_from_large(const ConvolutionGeometry& geometry);
// The parts of the large tensor, gathered from the small one.  Throws Unsupported where there are too many.
std::vector<Gather> large_from_small(const ConvolutionGeometry& geometry);

// A source image as windows: channel by channel and tap by tap of a position, taps outside where `tap_major`.
struct WindowSource {
  const double* data;
  int64_t channels, channel_step, position_step;
  bool tap_major;
};

// Positions that follow each other along the last axis: which lines they are, and where the first one is.
struct PositionRun {
  int64_t line, count;
  int64_t at[3];
};

// Lines are positions, summed over what a window holds.
class WindowFactor final : public Factor<double> {
 public:
  WindowFactor(const Gather& gather, const WindowSource& source) : gather_(gather), source_(source) {}
  void pack(double* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const override;

 private:
  const Gather& gather_;
  const WindowSource source_;
};

// Lines are what a window holds, summed over positions.
class TapFactor final : public Factor<double> {
 public:
  TapFactor(const Gather& gather, const WindowSource& source) : gather_(gather), source_(source) {}
  void pack(double* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const override;

 private:
  void pack_lines(double* to, int64_t width, int64_t first, int64_t lines, const PositionRun& run, int64_t step) const;
  void pack_channels(double* to, int64_t width, int64_t first, int64_t lines, const PositionRun& run,
                     int64_t step) const;

  const Gather& gather_;
  const WindowSource source_;
};

}  // namespace mx::cpu
