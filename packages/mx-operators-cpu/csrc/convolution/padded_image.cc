// SPDX-License-Identifier: Apache-2.0
#include "convolution/padded_image.hpp"

#include <algorithm>

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

void PaddedImage::copy_channel(const double* from, int64_t channel, double* image) const {
  double* to = image + channel * plane();
  std::array<int64_t, 3> begin, end;  // of the source, in the copy
  for (size_t i = 0; i < 3; ++i) {
    begin[i] = std::clamp<int64_t>(-low_[i], 0, extent_[i]);
    end[i] = std::clamp(source_[i] - low_[i], begin[i], extent_[i]);
  }
  for (int64_t z = 0; z < extent_[0]; ++z)
    for (int64_t y = 0; y < extent_[1]; ++y, to += extent_[2]) {
      const bool inside = z >= begin[0] && z < end[0] && y >= begin[1] && y < end[1];
      if (!inside) {
        std::fill_n(to, extent_[2], 0.0);
        continue;
      }
      const double* row = from + ((z + low_[0]) * source_[1] + y + low_[1]) * source_[2] + low_[2];
      std::fill(to, to + begin[2], 0.0);
      std::copy(row + begin[2], row + end[2], to + begin[2]);
      std::fill(to + end[2], to + extent_[2], 0.0);
    }
  if (channel == channels_ - 1) std::fill_n(to, kBehind, 0.0);
}

std::vector<int64_t> PaddedImage::lines(const Gather& gather) const {
  std::vector<int64_t> found;
  for (int64_t c = 0; c < channels_; ++c)
    for (const auto& tap : gather.taps)
      found.push_back(c * plane() +
                      ((tap[0] - low_[0]) * extent_[1] + tap[1] - low_[1]) * extent_[2] + tap[2] - low_[2]);
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
