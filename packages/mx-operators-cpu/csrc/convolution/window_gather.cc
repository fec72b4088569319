// SPDX-License-Identifier: Apache-2.0
#include "convolution/window_gather.hpp"

#include <algorithm>

#include "common/clones.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kMostLines = 64;   // of a panel
constexpr int64_t kMostParts = 4096;  // of a large tensor
constexpr int64_t kMostExtent = int64_t{1} << 31;

// The runs of `n` positions from `first` on; returns how many.
int64_t split(const Gather& g, int64_t first, int64_t n, PositionRun* runs) {
  const int64_t width = g.axes[2].positions, height = g.axes[1].positions;
  int64_t count = 0;
  for (int64_t line = 0; line < n;) {
    const int64_t p = first + line, x = p % width, row = p / width;
    const int64_t length = std::min(width - x, n - line);
    runs[count++] = {line, length, {row / height, row % height, x}};
    line += length;
  }
  return count;
}

// The row of the source that a tap of a run lies in; -1 outside.
MX_INLINE int64_t row_of(const Gather& g, const PositionRun& run, const std::array<int64_t, 3>& tap) {
  const int64_t z = run.at[0] * g.axes[0].stride + tap[0], y = run.at[1] * g.axes[1].stride + tap[1];
  if (z < 0 || z >= g.axes[0].extent || y < 0 || y >= g.axes[1].extent) return -1;
  return z * g.axes[1].extent + y;
}

// Which positions of a run have their tap inside of the row: begin to end; the first one's lies at `x`.
struct Inside {
  int64_t x, begin, end;
};
MX_INLINE Inside inside(const Gather& g, const PositionRun& run, const std::array<int64_t, 3>& tap) {
  const auto& axis = g.axes[2];
  const int64_t x = run.at[2] * axis.stride + tap[2], beyond = axis.extent - x;
  int64_t begin = 0, end = run.count;
  if (axis.stride == 1) {
    begin = std::min(std::max<int64_t>(-x, 0), end);
    end = std::max(std::min(end, beyond), begin);
  } else {
    while (begin < end && x + begin * axis.stride < 0) ++begin;
    while (end > begin && x + (end - 1) * axis.stride >= axis.extent) --end;
  }
  return {x, begin, end};
}

// What element `q` of a window is.
struct Place {
  int64_t channel, tap;
  Place(const Gather& g, const WindowSource& s, int64_t q)
      : channel(s.tap_major ? q % s.channels : q / g.n_taps()), tap(s.tap_major ? q / s.channels : q % g.n_taps()) {}
};

// A line of elements `step` apart; outside of begin to end there are none.
struct Strand {
  const double* from;
  int64_t begin, end;
};

// to[j * width + i] = element j of strand i, for i < n and j < count: by squares where elements are neighbours.
void pack_strands(double* to, int64_t width, const Strand* strands, int64_t n, int64_t count, int64_t step) {
  const auto one = [&](int64_t i, int64_t first, int64_t last) {
    const Strand& s = strands[i];
    for (int64_t j = first; j < last; ++j) to[j * width + i] = j >= s.begin && j < s.end ? s.from[j * step] : 0.0;
  };
  constexpr int64_t kSquare = 4;
  int64_t i = 0;
  for (; i + kSquare <= n && step == 1; i += kSquare) {
    int64_t begin = 0, end = count;
    const double* from[kSquare];
    for (int64_t a = 0; a < kSquare; ++a) {
      from[a] = strands[i + a].from;
      begin = std::max(begin, strands[i + a].begin), end = std::min(end, strands[i + a].end);
    }
    begin = std::min(begin, count);
    const int64_t squares = std::max<int64_t>(end - begin, 0) / kSquare * kSquare;
    pack_squares(to + begin * width + i, width, from, begin, squares);
    for (int64_t a = 0; a < kSquare; ++a) one(i + a, 0, begin), one(i + a, begin + squares, count);
  }
  for (; i < n; ++i) one(i, 0, count);
}

// What a tap of a run finds in a channel: nothing, elements from `offset` on, nothing.
struct Piece {
  int64_t line, begin, end, count, offset;
};

// The pieces of all runs for a tap.
void find_pieces(const Gather& g, const WindowSource& s, const PositionRun* runs, int64_t n_runs, int64_t tap, Piece* pieces) {
  const auto& offsets = g.taps[static_cast<size_t>(tap)];
  for (int64_t r = 0; r < n_runs; ++r) {
    const int64_t row = row_of(g, runs[r], offsets);
    const Inside in = row < 0 ? Inside{0, 0, 0} : inside(g, runs[r], offsets);
    pieces[r] = {runs[r].line, in.begin, in.end, runs[r].count,
                 row < 0 ? 0 : (row * g.axes[2].extent + in.x) * s.position_step};
  }
}

MX_CLONES(void, copy_pieces, (double* __restrict to, const double* __restrict channel, const Piece* pieces, int64_t n,
                              int64_t stride), (to, channel, pieces, n, stride)) {
  for (const Piece* p = pieces; p < pieces + n; ++p) {
    double* line = to + p->line;
    const double* from = channel + p->offset;
    for (int64_t i = 0; i < p->begin; ++i) line[i] = 0;
    if (stride == 1) for (int64_t i = p->begin; i < p->end; ++i) line[i] = from[i];
    else for (int64_t i = p->begin; i < p->end; ++i) line[i] = from[i * stride];
    for (int64_t i = p->end; i < p->count; ++i) line[i] = 0;
  }
}

// Whole lines from one place: rows `row_step` apart, into every `every`th row of the panel.
template <int64_t Width>
MX_INLINE void copy_lines(double* to, const double* from, int64_t rows, int64_t to_step, int64_t from_step) {
  for (int64_t k = 0; k < rows; ++k) __builtin_memcpy(to + k * to_step, from + k * from_step, Width * sizeof(double));
}
MX_CLONES(void, copy_whole, (double* to, const double* from, int64_t width, int64_t rows, int64_t to_step,
                             int64_t from_step), (to, from, width, rows, to_step, from_step)) {
  if (width == 24) return copy_lines<24>(to, from, rows, to_step, from_step);
  if (width == 12) return copy_lines<12>(to, from, rows, to_step, from_step);
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t i = 0; i < width; ++i) to[k * to_step + i] = from[k * from_step + i];
}

// Tap by tap: where it lies is the same in every channel.
void pack_positions(const Gather& g, const WindowSource& s, double* panel, int64_t width, const PositionRun* runs,
                    int64_t n_runs, int64_t begin, int64_t depth) {
  const int64_t taps = g.n_taps(), stride = g.axes[2].stride * s.position_step;
  Piece pieces[kMostLines];
  for (int64_t t = 0; t < std::min(taps, depth); ++t) {
    const Place place(g, s, begin + t);
    find_pieces(g, s, runs, n_runs, place.tap, pieces);
    const double* channel = s.data + place.channel * s.channel_step;
    const int64_t rows = (depth - t + taps - 1) / taps;
    const Piece& first = pieces[0];
    if (n_runs == 1 && stride == 1 && first.begin == 0 && first.end == first.count) {
      copy_whole(panel + t * width, channel + first.offset, first.count, rows, taps * width, s.channel_step);
      continue;
    }
    for (int64_t k = 0; k < rows; ++k)
      copy_pieces(panel + (t + k * taps) * width, channel + k * s.channel_step, pieces, n_runs, stride);
  }
}

}  // namespace

ConvolutionGeometry::ConvolutionGeometry(const ConvolutionOptions& options, const Spec& large, const Spec& weight,
                                         const Spec& small)
    : batch(extent(large.shape, 0)), groups(options.groups), channels_last(options.channels_last),
      winograd(options.winograd) {
  const Window& w = options.window;
  require_whole(w);
  const size_t spatial = w.kernel.size(), rank = spatial + 2;
  if (spatial < 1 || spatial > 3 || groups < 1 || large.shape.size() != rank || small.shape.size() != rank ||
      weight.shape.size() != rank || small.shape[0] != batch)
    throw Unsupported{};
  const size_t channel = channels_last ? rank - 1 : 1, before = channels_last ? 1 : 2;
  channels = large.shape[channel] / groups, filters = small.shape[channel] / groups;
  if (channels < 1 || filters < 1 || channels * groups != large.shape[channel] ||
      filters * groups != small.shape[channel] || weight.shape[0] != groups * filters || weight.shape[channel] != channels)
    throw Unsupported{};
  for (size_t i = 0; i < spatial; ++i) {
    const ConvolutionAxis axis = {large.shape[before + i], small.shape[before + i], w.kernel[i], w.stride[i],
                                  w.dilate[i], w.pad[i]};
    if (weight.shape[before + i] != axis.kernel) throw Unsupported{};
    for (const int64_t n : {axis.large, axis.small, axis.kernel, axis.stride, axis.dilate, axis.pad})
      if (n >= kMostExtent) throw Unsupported{};
    axes[3 - spatial + i] = axis;
  }
}

double ConvolutionGeometry::macs() const {
  return static_cast<double>(batch * groups * filters) * static_cast<double>(small_area()) *
         static_cast<double>(window());
}

Gather small_from_large(const ConvolutionGeometry& geometry) {
  Gather made;
  const auto& a = geometry.axes;
  for (size_t i = 0; i < 3; ++i) made.axes[i] = {a[i].small, a[i].stride, a[i].large};
  made.first = {0, 0, 0}, made.step = {1, 1, 1};
  for (int64_t z = 0; z < a[0].kernel; ++z)
    for (int64_t y = 0; y < a[1].kernel; ++y)
      for (int64_t x = 0; x < a[2].kernel; ++x) {
        made.tap_index.push_back(made.n_taps());
        made.taps.push_back({z * a[0].dilate - a[0].pad, y * a[1].dilate - a[1].pad, x * a[2].dilate - a[2].pad});
      }
  return made;
}

std::vector<Gather> large_from_small(const ConvolutionGeometry& geometry) {
  const auto& a = geometry.axes;
  int64_t parts = 1;
  for (const ConvolutionAxis& axis : a) parts *= std::min({axis.stride, axis.large, kMostParts + 1});
  if (parts > kMostParts) throw Unsupported{};
  // Per axis and remainder: the taps that positions with it see, and where.
  struct Seen {
    int64_t tap, offset;
  };
  const auto seen = [&](size_t axis, int64_t remainder) {
    std::vector<Seen> found;
    for (int64_t tap = 0; tap < a[axis].kernel; ++tap) {
      const int64_t distance = remainder + a[axis].pad - tap * a[axis].dilate;
      if (distance % a[axis].stride == 0) found.push_back({tap, distance / a[axis].stride});
    }
    return found;
  };
  std::vector<Gather> made;
  std::array<int64_t, 3> first;
  const auto bound = [&](size_t axis) { return std::min(a[axis].stride, a[axis].large); };
  for (first[0] = 0; first[0] < bound(0); ++first[0])
    for (first[1] = 0; first[1] < bound(1); ++first[1])
      for (first[2] = 0; first[2] < bound(2); ++first[2]) {
        Gather part;
        for (size_t i = 0; i < 3; ++i)
          part.axes[i] = {(a[i].large - first[i] + a[i].stride - 1) / a[i].stride, 1, a[i].small};
        part.first = first, part.step = {a[0].stride, a[1].stride, a[2].stride};
        for (const Seen& z : seen(0, first[0]))
          for (const Seen& y : seen(1, first[1]))
            for (const Seen& x : seen(2, first[2])) {
              part.taps.push_back({z.offset, y.offset, x.offset});
              part.tap_index.push_back((z.tap * a[1].kernel + y.tap) * a[2].kernel + x.tap);
            }
        made.push_back(std::move(part));
      }
  return made;
}

void WindowFactor::pack(double* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const {
  if (depth == 0) return;  // no tap sees these positions
  PositionRun runs[kMostLines];
  const int64_t n_runs = split(gather_, first, lines, runs);
  if (!source_.tap_major) {
    pack_positions(gather_, source_, panel, width, runs, n_runs, begin, depth);
  } else {
    const int64_t line_step = gather_.axes[2].stride * source_.position_step;
    for (int64_t k = 0; k < depth;) {
      const Place place(gather_, source_, begin + k);
      const auto& tap = gather_.taps[static_cast<size_t>(place.tap)];
      const int64_t channels = std::min(source_.channels - place.channel, depth - k);
      for (int64_t r = 0; r < n_runs; ++r) {
        const int64_t row = row_of(gather_, runs[r], tap);
        const Inside in = row < 0 ? Inside{0, 0, 0} : inside(gather_, runs[r], tap);
        double* to = panel + k * width + runs[r].line;
        for (int64_t c = 0; c < channels; ++c) {
          std::fill(to + c * width, to + c * width + in.begin, 0.0);
          std::fill(to + c * width + in.end, to + c * width + runs[r].count, 0.0);
        }
        if (in.begin == in.end) continue;
        const double* from = source_.data + (row * gather_.axes[2].extent + in.x) * source_.position_step;
        pack_along_depth(to + in.begin, width, from + in.begin * line_step + place.channel, line_step,
                         in.end - in.begin, channels);
      }
      k += channels;
    }
  }
  if (lines < width)
    for (int64_t k = 0; k < depth; ++k) std::fill(panel + k * width + lines, panel + (k + 1) * width, 0.0);
}

// Each line has a place of its own.
void TapFactor::pack_lines(double* to, int64_t width, int64_t first, int64_t lines, const PositionRun& run,
                           int64_t step) const {
  Strand strands[kMostLines];
  for (int64_t i = 0; i < lines; ++i) {
    const Place place(gather_, source_, first + i);
    const auto& tap = gather_.taps[static_cast<size_t>(place.tap)];
    const int64_t row = row_of(gather_, run, tap);
    const Inside in = row < 0 ? Inside{0, 0, 0} : inside(gather_, run, tap);
    strands[i] = {source_.data + place.channel * source_.channel_step +
                      (row < 0 ? 0 : (row * gather_.axes[2].extent + in.x) * source_.position_step),
                  in.begin, in.end};
  }
  pack_strands(to, width, strands, lines, run.count, step);
}

// Lines that are channels of a tap are neighbours.
void TapFactor::pack_channels(double* to, int64_t width, int64_t first, int64_t lines, const PositionRun& run,
                              int64_t step) const {
  for (int64_t i = 0; i < lines;) {
    const Place place(gather_, source_, first + i);
    const auto& tap = gather_.taps[static_cast<size_t>(place.tap)];
    const int64_t n = std::min(source_.channels - place.channel, lines - i), row = row_of(gather_, run, tap);
    const Inside in = row < 0 ? Inside{0, 0, 0} : inside(gather_, run, tap);
    const double* from = source_.data + place.channel +
                         (row < 0 ? 0 : (row * gather_.axes[2].extent + in.x) * source_.position_step);
    for (int64_t j = 0; j < in.begin; ++j) std::fill_n(to + j * width + i, n, 0.0);
    for (int64_t j = in.begin; j < in.end; ++j) std::copy_n(from + j * step, n, to + j * width + i);
    for (int64_t j = in.end; j < run.count; ++j) std::fill_n(to + j * width + i, n, 0.0);
    i += n;
  }
}

void TapFactor::pack(double* panel, int64_t width, int64_t first, int64_t lines, int64_t begin, int64_t depth) const {
  const auto& axis = gather_.axes[2];
  const int64_t step = axis.stride * source_.position_step;
  for (int64_t k = 0; k < depth;) {
    PositionRun run;
    split(gather_, begin + k, std::min(depth - k, axis.positions - (begin + k) % axis.positions), &run);
    source_.tap_major ? pack_channels(panel + k * width, width, first, lines, run, step)
                      : pack_lines(panel + k * width, width, first, lines, run, step);
    if (lines < width)
      for (int64_t j = k; j < k + run.count; ++j) std::fill(panel + j * width + lines, panel + (j + 1) * width, 0.0);
    k += run.count;
  }
}

}  // namespace mx::cpu
