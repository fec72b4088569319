// SPDX-License-Identifier: Apache-2.0
#include "convolution/padded_image.hpp"

#include <algorithm>

#include "common/clones.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

// to[i] = from[i * stride], i < n.
template <class T>
MX_INLINE void every(T* __restrict to, const T* __restrict from, int64_t n, int64_t stride) {
  if (stride == 1) for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  else if (stride == 2) for (int64_t i = 0; i < n; ++i) to[i] = from[i * 2];
  else for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}
MX_CLONES(void, copy_every, (double* to, const double* from, int64_t n, int64_t stride), (to, from, n, stride)) {
  every(to, from, n, stride);
}
MX_CLONES(void, copy_every, (float* to, const float* from, int64_t n, int64_t stride), (to, from, n, stride)) {
  every(to, from, n, stride);
}

struct Reach {
  std::array<int64_t, 3> low, phases, extent;
};

// The lowest offsets of taps, of which there is one at least, and how many phases and elements of each positions and
// taps reach from there.
Reach reach(const std::vector<Gather>& gathers) {
  const auto seen = std::find_if(gathers.begin(), gathers.end(), [](const Gather& g) { return !g.taps.empty(); });
  Reach found{seen->taps[0], {}, {}};
  std::array<int64_t, 3> high = found.low, positions{};
  for (const Gather& g : gathers)
    for (size_t i = 0; i < 3; ++i) {
      positions[i] = std::max(positions[i], g.axes[i].positions);
      for (const auto& tap : g.taps) found.low[i] = std::min(found.low[i], tap[i]), high[i] = std::max(high[i], tap[i]);
    }
  for (size_t i = 0; i < 3; ++i) {
    const int64_t stride = gathers[0].axes[i].stride, span = high[i] - found.low[i];
    found.phases[i] = std::min(stride, span + 1), found.extent[i] = positions[i] + span / stride;
  }
  return found;
}

// The least element of a phase that is at `at` or behind it.
int64_t behind(int64_t at, int64_t stride) { return at <= 0 ? 0 : (at + stride - 1) / stride; }

}  // namespace

bool PaddedImage::suits(const std::vector<Gather>& gathers, const Limits& limits) {
  const auto empty = [](const Gather& g) { return g.positions() == 0; };
  const auto blind = [](const Gather& g) { return g.taps.empty(); };
  if (std::any_of(gathers.begin(), gathers.end(), empty)) return false;
  if (std::all_of(gathers.begin(), gathers.end(), blind)) return false;
  const Reach found = reach(gathers);
  double plane = 1;
  for (size_t i = 0; i < 3; ++i) plane *= static_cast<double>(found.phases[i]) * static_cast<double>(found.extent[i]);
  const double copy = static_cast<double>(limits.channels) * plane + kBehind;
  if (!(limits.copies * copy <= limits.elements)) return false;
  const PaddedImage image(gathers, limits.channels);
  return std::all_of(gathers.begin(), gathers.end(), [&](const Gather& g) {
    return static_cast<double>(image.columns(g)) <= limits.columns * static_cast<double>(g.positions());
  });
}

PaddedImage::PaddedImage(const std::vector<Gather>& gathers, int64_t channels) : channels_(channels) {
  const Reach found = reach(gathers);
  low_ = found.low, phases_ = found.phases, extent_ = found.extent;
  for (size_t i = 0; i < 3; ++i) source_[i] = gathers[0].axes[i].extent, stride_[i] = gathers[0].axes[i].stride;
  is_source_ = low_ == std::array<int64_t, 3>{} && stride_ == std::array<int64_t, 3>{1, 1, 1} && extent_ == source_;
}

PaddedImage::Phase PaddedImage::phase(int64_t which) const {
  const int64_t z = which / (phases_[1] * phases_[2]), y = which / phases_[2] % phases_[1], x = which % phases_[2];
  const int64_t first = x + low_[2];
  const int64_t begin = std::min(behind(-first, stride_[2]), extent_[2]);
  const int64_t end = std::clamp(behind(source_[2] - first, stride_[2]), begin, extent_[2]);
  return {z + low_[0], y + low_[1], first, begin, end};
}

PaddedImage::Row PaddedImage::row(const Phase& phase, int64_t z, int64_t y) const {
  const int64_t plane = z * stride_[0] + phase.z, line = y * stride_[1] + phase.y;
  if (plane < 0 || plane >= source_[0] || line < 0 || line >= source_[1]) return {0, 0, 0};
  return {phase.begin, phase.end, (plane * source_[1] + line) * source_[2] + phase.x + phase.begin * stride_[2]};
}

template <class T>
void PaddedImage::copy_channel(const T* from, int64_t channel, T* image) const {
  T* to = image + channel * plane();
  if (is_source_) to = std::copy_n(from, plane(), to);
  for (int64_t i = 0; i < phases() && !is_source_; ++i) {
    const Phase p = phase(i);
    for (int64_t z = 0; z < extent_[0]; ++z)
      for (int64_t y = 0; y < extent_[1]; ++y, to += extent_[2]) {
        const Row r = row(p, z, y);
        std::fill(to, to + r.begin, T(0));
        copy_every(to + r.begin, from + r.position, r.end - r.begin, stride_[2]);
        std::fill(to + r.end, to + extent_[2], T(0));
      }
  }
  if (channel == channels_ - 1) std::fill_n(to, kBehind, T(0));
}

template <class T>
void PaddedImage::copy_row(const T* from, int64_t step, int64_t which, T* image) const {
  const Row r = row(phase(which / (extent_[0] * extent_[1])), which / extent_[1] % extent_[0], which % extent_[1]);
  T* to = image + which * extent_[2];
  for (int64_t c = 0; c < channels_; ++c) {
    T* line = to + c * plane();
    std::fill(line, line + r.begin, T(0));
    std::fill(line + r.end, line + extent_[2], T(0));
  }
  if (r.begin < r.end)
    transposed<T>()(to + r.begin, plane(), from + r.position * step, step * stride_[2], channels_, r.end - r.begin);
  if (which == rows() - 1) std::fill_n(image + channels_ * plane(), kBehind, T(0));
}

std::vector<int64_t> PaddedImage::lines(const Gather& gather, bool tap_major) const {
  std::vector<int64_t> found;
  const auto add = [&](int64_t channel, const std::array<int64_t, 3>& tap) {
    int64_t phase = 0, at = 0;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t offset = tap[i] - low_[i];
      phase = phase * phases_[i] + offset % stride_[i], at = at * extent_[i] + offset / stride_[i];
    }
    found.push_back(channel * plane() + phase * extent_[0] * extent_[1] * extent_[2] + at);
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

std::vector<PaddedImage::Run> PaddedImage::runs(const Gather& gather, int64_t first, int64_t n) const {
  std::vector<Run> found(static_cast<size_t>(n / extent_[2] + 2));  // one for every row that they touch
  found.resize(static_cast<size_t>(runs(gather, first, n, found.data())));
  return found;
}

std::vector<int64_t> PaddedImage::mask(const Gather& gather, int64_t length) const {
  std::vector<int64_t> made(static_cast<size_t>(length), 0);
  for (const Run& run : runs(gather, 0, columns(gather)))
    std::fill_n(made.begin() + run.column, run.count, int64_t{-1});
  return made;
}

template void PaddedImage::copy_channel(const float*, int64_t, float*) const;
template void PaddedImage::copy_channel(const double*, int64_t, double*) const;
template void PaddedImage::copy_row(const float*, int64_t, int64_t, float*) const;
template void PaddedImage::copy_row(const double*, int64_t, int64_t, double*) const;

}  // namespace mx::cpu
