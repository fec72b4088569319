// SPDX-License-Identifier: Apache-2.0
//
// A copy of an image with room for the taps of its windows.  Elements that have the same remainder by the stride lie
// together, in a phase of their own, so that neighbouring windows see neighbours there: what a tap finds for all
// positions of the image lies in one line, and products read it without packing.  A line has columns that are no
// positions, too, where rows end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "convolution/window_gather.hpp"

namespace mx::cpu {

class PaddedImage {
 public:
  // Copies: how many, of how many channels; the most elements of all; the most columns of a line for a position.
  struct Limits {
    double copies;
    int64_t channels;
    double elements, columns;
  };
  // Whether they are kept.  Any extents: nothing overflows.
  static bool suits(const std::vector<Gather>& gathers, const Limits& limits);
  // Of a source that all of `gathers` see, with the same strides.
  PaddedImage(const std::vector<Gather>& gathers, int64_t channels);

  // Elements, with what tiles read after the last line.
  int64_t size() const { return channels_ * plane() + kBehind; }
  template <class T>
  void copy_channel(const T* from, int64_t channel, T* image) const;
  // Where channels are last, positions `step` apart, a row of the copy is made at once, of all channels.
  int64_t rows() const { return phases() * extent_[0] * extent_[1]; }
  template <class T>
  void copy_row(const T* from, int64_t step, int64_t which, T* image) const;

  // Columns of a line, the last of which is a position.
  int64_t columns(const Gather& gather) const { return column(gather, gather.positions() - 1) + 1; }
  // Where the lines of a window's elements begin, channel by channel and tap by tap, taps outside where `tap_major`.
  std::vector<int64_t> lines(const Gather& gather, bool tap_major) const;

  // Columns that are positions, side by side.
  struct Run {
    int64_t column, count, position;
  };
  // Those of columns [first, first + n); returns how many, at most n.
  int64_t runs(const Gather& gather, int64_t first, int64_t n, Run* runs) const;
  std::vector<Run> runs(const Gather& gather, int64_t first, int64_t n) const;
  // All ones for columns that are positions, 0 for the others of `length` columns.
  std::vector<int64_t> mask(const Gather& gather, int64_t length) const;

 private:
  static constexpr int64_t kBehind = 96;

  // Where it begins in the source, and which columns of its rows, [begin, end), the source has.
  struct Phase {
    int64_t z, y, x, begin, end;
  };
  Phase phase(int64_t which) const;
  // The part [begin, end) of a row that the source has, its first element at `position`; 0 elsewhere.
  struct Row {
    int64_t begin, end, position;
  };
  Row row(const Phase& phase, int64_t z, int64_t y) const;
  int64_t phases() const { return phases_[0] * phases_[1] * phases_[2]; }
  int64_t plane() const { return rows() * extent_[2]; }
  int64_t column(const Gather& gather, int64_t position) const;

  const int64_t channels_;
  std::array<int64_t, 3> source_, stride_;        // of the source; of the windows
  std::array<int64_t, 3> low_, phases_, extent_;  // the lowest offset of a tap; phases, and the extent of each
  bool is_source_;  // no padding, and no steps: it is the source as it lies
};

}  // namespace mx::cpu
