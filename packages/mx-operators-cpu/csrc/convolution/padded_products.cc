// SPDX-License-Identifier: Apache-2.0
#include "convolution/padded_products.hpp"

#include <algorithm>

#include "common/parallel.hpp"

namespace mx::cpu {
namespace {

constexpr int64_t kFewestFilters = 4, kMostFilters = 32;  // of a result; with more, packed windows are used often enough
constexpr int64_t kMostDepth = 4096;
constexpr double kMostElements = 1 << 20;  // of copies
constexpr double kColumnsOfPosition = 4.0 / 3;
constexpr int64_t kBlock = 96;           // columns of a task: whole tiles of every instruction set
constexpr int64_t kMostColumns = 48;     // of a tile
constexpr int64_t kGrain = 4;            // copies that a thread makes at once

int64_t rounded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
template <class T>
size_t bytes_of(int64_t elements) {
  return static_cast<size_t>(elements) * sizeof(T);
}

bool suits_copies(const ConvolutionGeometry& g, int64_t channels, const std::vector<Gather>& gathers,
                  double columns) {
  const double n = static_cast<double>(g.batch) * static_cast<double>(g.groups);
  if (g.channels_last && !(gathers.size() == 1 && is_dense(gathers[0]))) return false;
  return PaddedImage::suits(gathers, {n, channels, kMostElements, columns});
}

// Copies of the images of all groups, `units` of work each: channels, or rows where channels are last.
class Copies {
 public:
  Copies(const ConvolutionGeometry& g, const PaddedImage& image, const ImageSteps& from, int64_t channels)
      : g_(g), image_(image), from_(from), each_(g.channels_last ? image.rows() : channels) {}
  int64_t units() const { return g_.batch * g_.groups * each_; }
  template <class T>
  void make(const T* source, int64_t unit, T* copies) const {
    const int64_t which = unit / each_, part = unit % each_;
    const T* data = source + which / g_.groups * from_.image + which % g_.groups * from_.group;
    T* const copy = copies + which * image_.size();
    if (g_.channels_last) image_.copy_row(data, from_.position, part, copy);
    else image_.copy_channel(data + part * from_.channel, part, copy);
  }

 private:
  const ConvolutionGeometry& g_;
  const PaddedImage& image_;
  const ImageSteps from_;
  const int64_t each_;
};

}  // namespace

template <class T>
bool PaddedProduct<T>::suits(const ConvolutionGeometry& g, bool to_large, const std::vector<Gather>& gathers,
                             const Limits& limits) {
  const int64_t from = to_large ? g.filters : g.channels, made = to_large ? g.channels : g.filters;
  return made >= limits.fewest && made <= limits.most && g.taps() > 1 && g.taps() * from <= kMostDepth &&
         suits_copies(g, from, gathers, limits.columns);
}

template <class T>
PaddedProduct<T>::PaddedProduct(const ConvolutionGeometry& g, bool to_large, const std::vector<Gather>& gathers)
    : geometry_(g), to_large_(to_large), from_(to_large ? g.filters : g.channels),
      made_(to_large ? g.channels : g.filters), rows_(rounded(made_, gemm_tile_of<T>().rows)), image_(gathers, from_) {
  for (const Gather& gather : gathers) {
    const int64_t columns = image_.columns(gather), blocks = (columns + kBlock - 1) / kBlock;
    parts_.push_back({gather, image_.lines(gather, g.channels_last), columns, blocks, tasks_, weights_});
    tasks_ += g.batch * g.groups * blocks;
    weights_ += rows_ * depth(parts_.back());
  }
}

template <class T>
size_t PaddedProduct<T>::bytes() const { return bytes_of<T>(images_size() + geometry_.groups * weights_); }

template <class T>
double PaddedProduct<T>::macs() const {
  double macs = 0;
  for (const Part& part : parts_)
    macs += static_cast<double>(rounded(part.columns, gemm_tile_of<T>().columns)) * static_cast<double>(depth(part));
  return macs * static_cast<double>(rows_) * static_cast<double>(geometry_.batch * geometry_.groups);
}

template <class T>
void PaddedProduct<T>::run(const T* source, const T* weight, const ConvolutionResult<T>& result,
                        T* scratch) const {
  const ConvolutionGeometry& g = geometry_;
  T* const packed = scratch + images_size();
  const Copies copies(g, image_, to_large_ ? g.small() : g.large(), from_);
  const int64_t n_parts = static_cast<int64_t>(parts_.size());
  parallel_for(copies.units() + g.groups * n_parts, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t which = i - copies.units();
      if (which < 0) copies.make(source, i, scratch);
      else pack(parts_[static_cast<size_t>(which % n_parts)], which / n_parts, weight, packed);
    }
  });
  parallel_for(tasks_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const auto behind = std::upper_bound(parts_.begin(), parts_.end(), task,
                                           [](int64_t t, const Part& part) { return t < part.first_task; });
      const Part& part = *(behind - 1);
      run_block(part, task - part.first_task, result, scratch, packed);
    }
  });
}

template <class T>
void PaddedProduct<T>::pack(const Part& part, int64_t group, const T* weight, T* packed) const {
  const GroupWeights<T> weights(geometry_, part.gather, to_large_, weight, group);
  const int64_t rows = gemm_tile_of<T>().rows, n = depth(part);
  T* to = packed + group * weights_ + part.weights;
  for (int64_t row = 0; row < made_; row += rows)
    weights.factor().pack(to + row * n, rows, row, std::min(rows, made_ - row), 0, n);
}

template <class T>
void PaddedProduct<T>::run_block(const Part& part, int64_t task, const ConvolutionResult<T>& result, const T* images,
                              const T* packed) const {
  const ConvolutionGeometry& g = geometry_;
  const GemmTile<T>& tile = gemm_tile_of<T>();
  const int64_t which = task / part.blocks, first = task % part.blocks * kBlock, n = depth(part);
  const GroupResult<T> made(g, part.gather, to_large_, result, which / g.groups, which % g.groups);
  const T* image = images + which * image_.size();
  const T* weights = packed + which % g.groups * weights_ + part.weights;
  alignas(64) T sums[kLargestTile];
  PaddedImage::Run runs[kMostColumns];
  for (int64_t column = first; column < std::min(first + kBlock, part.columns); column += tile.columns) {
    const int64_t count =
        image_.runs(part.gather, column, std::min(tile.columns, part.columns - column), runs);
    if (count == 0) continue;  // between the planes of an image
    for (int64_t row = 0; row < made_; row += tile.rows) {
      tile.run_lines(sums, weights + row * n, image + column, part.lines.data(), n);
      for (int64_t i = 0; i < count; ++i)
        made.put_channels(row, std::min(tile.rows, made_ - row), runs[i].position, runs[i].count,
                          sums + runs[i].column - column, tile.columns);
    }
  }
}

template class PaddedProduct<float>;
template class PaddedProduct<double>;

bool PaddedFilterGradient::suits(const ConvolutionGeometry& g, const Gather& gather) {
  return g.filters >= kFewestFilters && g.filters <= kMostFilters && g.taps() > 1 &&
         suits_copies(g, std::max(g.channels, g.filters), {gather}, kColumnsOfPosition);
}

PaddedFilterGradient::PaddedFilterGradient(const ConvolutionGeometry& g, const Gather& gather)
    : geometry_(g), gather_(gather), image_({gather}, g.channels), rows_(rounded(g.filters, loops().dots64.rows)),
      columns_(image_.columns(gather)), length_(rounded(columns_, kDotLength)),
      lines_(image_.lines(gather, g.channels_last)), mask_(image_.mask(gather, length_)) {
  lines_.resize(static_cast<size_t>(rounded(g.window(), loops().dots64.columns)), lines_.back());
}

size_t PaddedFilterGradient::bytes() const {
  return bytes_of<double>(images_size() + geometry_.batch * geometry_.groups * rows_ * length_);
}

void PaddedFilterGradient::run(const double* large, const double* small, double* to, bool add, double* scratch) const {
  const ConvolutionGeometry& g = geometry_;
  const DotTile& tile = loops().dots64;
  double* const heads = scratch + images_size();
  const Copies copies(g, image_, g.large(), g.channels);
  parallel_for(copies.units() + g.batch * g.groups * (rows_ / tile.rows), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i < copies.units()) copies.make(large, i, scratch);
      else copy_heads(small, (i - copies.units()) * tile.rows, heads);
    }
  });
  const int64_t tasks = g.groups * (rows_ / tile.rows) * (static_cast<int64_t>(lines_.size()) / tile.columns);
  parallel_for(tasks, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) run_tile(task, scratch, heads, to, add);
  });
}

// The lines of heads of a tile: 0 between the positions, and for filters that there are not.
void PaddedFilterGradient::copy_heads(const double* small, int64_t row, double* to) const {
  const ConvolutionGeometry& g = geometry_;
  const ImageSteps steps = g.small();
  const int64_t tile = loops().dots64.rows, which = row / rows_, filter = row % rows_;
  const int64_t filters = std::min(tile, g.filters - filter);
  double* const lines = to + row * length_;
  std::fill_n(lines, tile * length_, 0.0);
  const double* from = small + which / g.groups * steps.image + which % g.groups * steps.group + filter * steps.channel;
  PaddedImage::Run runs[kMostColumns];
  for (int64_t first = 0; first < columns_; first += kMostColumns) {
    const int64_t count = image_.runs(gather_, first, std::min(kMostColumns, columns_ - first), runs);
    for (const PaddedImage::Run* run = runs; run < runs + count; ++run) {
      const double* head = from + run->position * steps.position;
      if (g.channels_last) {
        loops().transpose64(lines + run->column, length_, head, steps.position, filters, run->count);
        continue;
      }
      for (int64_t k = 0; k < filters; ++k)
        std::copy_n(head + k * steps.channel, run->count, lines + k * length_ + run->column);
    }
  }
}

void PaddedFilterGradient::run_tile(int64_t task, const double* images, const double* heads, double* to,
                                    bool add) const {
  const ConvolutionGeometry& g = geometry_;
  const DotTile& tile = loops().dots64;
  const int64_t across = static_cast<int64_t>(lines_.size()) / tile.columns, down = rows_ / tile.rows;
  const int64_t first = task % across * tile.columns, row = task / across % down * tile.rows;
  const int64_t group = task / across / down;
  double sums[kLargestDots] = {};
  for (int64_t image = 0; image < g.batch; ++image) {
    const int64_t which = image * g.groups + group;
    tile.run(sums, heads + (which * rows_ + row) * length_, length_, images + which * image_.size(),
             lines_.data() + first, mask_.data(), length_);
  }
  for (int64_t r = 0; r < std::min(tile.rows, g.filters - row); ++r) {
    double* line = to + (group * g.filters + row + r) * g.window() + first;
    for (int64_t c = 0; c < std::min(tile.columns, g.window() - first); ++c)
      line[c] = add ? line[c] + sums[r * tile.columns + c] : sums[r * tile.columns + c];
  }
}

}  // namespace mx::cpu
