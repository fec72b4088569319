// SPDX-License-Identifier: Apache-2.0
#include "convolution/padded_image.hpp"

#include <algorithm>

#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

struct Reach {
  std::array<int64_t, 3> low, extent;
};

// The lowest offsets of taps, and how far positions and taps reach from there.
Reach reach(const std::vector<Gather>& gathers) {
  Reach found{gathers[0].taps[0], {}};
  std::array<int64_t, 3> high = found.low, positions{};
  for (const Gather& g : gathers)
    for (size_t i = 0; i < 3; ++i) {
      positions[i] = std::max(positions[i], g.axes[i].positions);
      for (const auto& tap : g.taps) found.low[i] = std::min(found.low[i], tap[i]), high[i] = std::max(high[i], tap[i]);
    }
  for (size_t i = 0; i < 3; ++i) found.extent[i] = positions[i] + high[i] - found.low[i];
  return found;
}

}  // namespace

bool PaddedImage::suits(const std::vector<Gather>& gathers, double n, int64_t channels, double most) {
  for (const Gather& g : gathers) {
    if (g.taps.empty() || g.positions() == 0) return false;
    for (const auto& axis : g.axes)
      if (axis.stride != 1) return false;
  }
  double plane = 1;
  for (const int64_t extent : reach(gathers).extent) plane *= static_cast<double>(extent);
  if (!(n * (static_cast<double>(channels) * plane + kBehind) <= most)) return false;
  const PaddedImage image(gathers, channels);
  return std::all_of(gathers.begin(), gathers.end(),
                     [&](const Gather& g) { return 3 * image.columns(g) <= 4 * g.positions(); });
}

PaddedImage::PaddedImage(const std::vector<Gather>& gathers, int64_t channels) : channels_(channels) {
  const Reach found = reach(gathers);
  low_ = found.low, extent_ = found.extent;
  for (size_t i = 0; i < 3; ++i) source_[i] = gathers[0].axes[i].extent;
}

PaddedImage::Inside PaddedImage::inside(size_t axis) const {
  const int64_t begin = std::clamp<int64_t>(-low_[axis], 0, extent_[axis]);
  return {begin, std::clamp(source_[axis] - low_[axis], begin, extent_[axis])};
}

void PaddedImage::copy_channel(const double* from, int64_t channel, double* image) const {
  double* to = image + channel * plane();
  const Inside planes = inside(0), rows = inside(1), columns = inside(2);
  for (int64_t z = 0; z < extent_[0]; ++z)
    for (int64_t y = 0; y < extent_[1]; ++y, to += extent_[2]) {
      if (!planes.has(z) || !rows.has(y)) {
        std::fill_n(to, extent_[2], 0.0);
        continue;
      }
      const double* row = from + ((z + low_[0]) * source_[1] + y + low_[1]) * source_[2] + low_[2];
      std::fill(to, to + columns.begin, 0.0);
      std::copy(row + columns.begin, row + columns.end, to + columns.begin);
      std::fill(to + columns.end, to + extent_[2], 0.0);
    }
  if (channel == channels_ - 1) std::fill_n(to, kBehind, 0.0);
}

void PaddedImage::copy_row(const double* from, int64_t step, int64_t row, double* image) const {
  const int64_t z = row / extent_[1], y = row % extent_[1];
  const Inside columns = inside(0).has(z) && inside(1).has(y) ? inside(2) : Inside{0, 0};
  double* to = image + row * extent_[2];
  for (int64_t c = 0; c < channels_; ++c) {
    double* line = to + c * plane();
    std::fill(line, line + columns.begin, 0.0);
    std::fill(line + columns.end, line + extent_[2], 0.0);
  }
  if (columns.begin < columns.end) {
    const int64_t first = ((z + low_[0]) * source_[1] + y + low_[1]) * source_[2] + low_[2] + columns.begin;
    loops().transpose64(to + columns.begin, plane(), from + first * step, step, channels_, columns.end - columns.begin);
  }
  if (row == rows() - 1) std::fill_n(image + channels_ * plane(), kBehind, 0.0);
}

std::vector<int64_t> PaddedImage::lines(const Gather& gather, bool tap_major) const {
  std::vector<int64_t> found;
  const auto add = [&](int64_t channel, const std::array<int64_t, 3>& tap) {
    found.push_back(channel * plane() +
                    ((tap[0] - low_[0]) * extent_[1] + tap[1] - low_[1]) * extent_[2] + tap[2] - low_[2]);
  };
  if (tap_major) {
    for (const auto& tap : gather.taps)
      for (int64_t c = 0; c < channels_; ++c) add(c, tap);
  } else {
    for (int64_t c = 0; c < channels_; ++c)
      for (const auto& tap : gather.taps) add(c, tap);
  }
  return found;
}

int64_t PaddedImage::column(const Gather& gather, int64_t position) const {
  const int64_t width = gather.axes[2].positions, height = gather.axes[1].positions;
  const int64_t row = position / width;
  return (row / height * extent_[1] + row % height) * extent_[2] + position % width;
}

int64_t PaddedImage::runs(const Gather& gather, int64_t first, int64_t n, Run* runs) const {
  const int64_t width = gather.axes[2].positions, height = gather.axes[1].positions;
  int64_t count = 0;
  for (int64_t column = first; column < first + n;) {
    const int64_t x = column % extent_[2], row = column / extent_[2], y = row % extent_[1], z = row / extent_[1];
    const int64_t length = std::min(extent_[2] - x, first + n - column), used = std::min(length, width - x);
    if (used > 0 && y < height && z < gather.axes[0].positions)
      runs[count++] = {column, used, (z * height + y) * width + x};
    column += length;
  }
  return count;
}

}  // namespace mx::cpu
