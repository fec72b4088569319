// SPDX-License-Identifier: Apache-2.0
#include "convolution/depthwise_planes.hpp"

#include <algorithm>

#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kMostFilters = 4;         // of a group
constexpr int64_t kMostDepth = 4096;        // products that are summed
constexpr double kMostElements = 1 << 20;   // of a copy, which every thread has
constexpr int64_t kColumnsOfPosition = 4;   // small planes are mostly padding

bool is_depthwise(const ConvolutionGeometry& g) {
  return g.channels == 1 && g.filters <= kMostFilters && !g.channels_last;
}

int64_t rounded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
size_t bytes_of(int64_t elements) { return static_cast<size_t>(elements) * sizeof(double); }

}  // namespace

bool DepthwiseProduct::suits(const ConvolutionGeometry& g, bool to_large, const std::vector<Gather>& gathers) {
  const int64_t from = to_large ? g.filters : 1;
  return is_depthwise(g) && g.taps() * from <= kMostDepth &&
         PaddedImage::suits(gathers, {1, from, kMostElements, kColumnsOfPosition});
}

DepthwiseProduct::DepthwiseProduct(const ConvolutionGeometry& g, bool to_large, const std::vector<Gather>& gathers)
    : geometry_(g), to_large_(to_large), from_(to_large ? g.filters : 1), made_(to_large ? 1 : g.filters),
      image_(gathers, from_) {
  const int64_t width = loops().row64.columns;
  for (const Gather& gather : gathers) {
    Part part{gather, image_.lines(gather, false), {}};
    const int64_t columns = image_.columns(gather);
    for (int64_t column = 0; column < columns; column += width)
      part.blocks.push_back({column, image_.runs(gather, column, std::min(width, columns - column))});
    parts_.push_back(std::move(part));
  }
}

size_t DepthwiseProduct::bytes() const { return bytes_of(image_.size() + from_ * geometry_.taps()); }

void DepthwiseProduct::run(const Call& call, const double* source, const double* weight,
                           const ConvolutionResult<double>& result, const PerThread& scratch) const {
  const ConvolutionGeometry& g = geometry_;
  const ImageSteps from = to_large_ ? g.small() : g.large();
  parallel_for(g.batch * g.groups, 1, [&](int64_t begin, int64_t end, int thread) {
    double* const image = scratch.of<double>(call, thread);
    for (int64_t plane = begin; plane < end; ++plane) {
      const double* data = source + plane / g.groups * from.image + plane % g.groups * from.group;
      for (int64_t c = 0; c < from_; ++c) image_.copy_channel(data + c * from.channel, c, image);
      for (const Part& part : parts_) run_part(part, plane, weight, result, image);
    }
  });
}

void DepthwiseProduct::run_part(const Part& part, int64_t plane, const double* weight,
                                const ConvolutionResult<double>& result, double* image) const {
  const ConvolutionGeometry& g = geometry_;
  const LineRow& row = loops().row64;
  const GroupWeights<double> weights(g, part.gather, to_large_, weight, plane % g.groups);
  const GroupResult<double> made(g, part.gather, to_large_, result, plane / g.groups, plane % g.groups);
  const auto depth = static_cast<int64_t>(part.lines.size());
  double* const packed = image + image_.size();
  alignas(64) double sums[kLongestRow];
  for (int64_t channel = 0; channel < made_; ++channel) {
    weights.factor().pack(packed, 1, channel, 1, 0, depth);
    for (const Block& block : part.blocks) {
      row.run(sums, packed, image + block.column, part.lines.data(), depth);
      for (const PaddedImage::Run& run : block.runs)
        made.put_channels(channel, 1, run.position, run.count, sums + run.column - block.column, row.columns);
    }
  }
}

bool DepthwiseFilterGradient::suits(const ConvolutionGeometry& g, const Gather& gather) {
  return is_depthwise(g) && g.taps() <= kMostDepth &&
         PaddedImage::suits({gather}, {1, 1, kMostElements, kColumnsOfPosition});
}

DepthwiseFilterGradient::DepthwiseFilterGradient(const ConvolutionGeometry& g, const Gather& gather)
    : geometry_(g), image_({gather}, 1), length_(rounded(image_.columns(gather), kDotLength)),
      runs_(image_.runs(gather, 0, image_.columns(gather))), lines_(image_.lines(gather, false)),
      mask_(image_.mask(gather, length_)) {
  lines_.resize(static_cast<size_t>(rounded(g.taps(), loops().dots64.columns)), lines_.back());
}

size_t DepthwiseFilterGradient::bytes() const {
  return bytes_of(image_.size() + length_ + geometry_.filters * static_cast<int64_t>(lines_.size()));
}

void DepthwiseFilterGradient::run(const Call& call, const double* large, const double* small, double* to, bool add,
                                  const PerThread& scratch) const {
  const int64_t weights = geometry_.filters * geometry_.taps();
  parallel_for(geometry_.groups, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t group = begin; group < end; ++group) {
      if (!add) std::fill_n(to + group * weights, weights, 0.0);
      run_group(group, large, small, to + group * weights, scratch.of<double>(call, thread));
    }
  });
}

// Adds the gradients of a group's weights.
void DepthwiseFilterGradient::run_group(int64_t group, const double* large, const double* small, double* to,
                                        double* image) const {
  const ConvolutionGeometry& g = geometry_;
  const DotTile& tile = loops().dots64;
  const ImageSteps from = g.large(), heads = g.small();
  double* const line = image + image_.size();
  double* const sums = line + length_;
  const auto lines = static_cast<int64_t>(lines_.size());
  std::fill_n(line, length_, 0.0);
  std::fill_n(sums, g.filters * lines, 0.0);
  for (int64_t n = 0; n < g.batch; ++n) {
    image_.copy_channel(large + n * from.image + group * from.group, 0, image);
    for (int64_t f = 0; f < g.filters; ++f) {
      const double* head = small + n * heads.image + group * heads.group + f * heads.channel;
      for (const PaddedImage::Run& run : runs_) std::copy_n(head + run.position, run.count, line + run.column);
      for (int64_t first = 0; first < lines; first += tile.columns) {
        double made[kLargestDots] = {};  // every row is the same
        tile.run(made, line, 0, image, lines_.data() + first, mask_.data(), length_);
        for (int64_t c = 0; c < tile.columns; ++c) sums[f * lines + first + c] += made[c];
      }
    }
  }
  for (int64_t f = 0; f < g.filters; ++f)
    for (int64_t tap = 0; tap < g.taps(); ++tap) to[f * g.taps() + tap] += sums[f * lines + tap];
}

}  // namespace mx::cpu
