// SPDX-License-Identifier: Apache-2.0
#include "convolution/filter_blocks.hpp"

#include <algorithm>

#include "common/clones.hpp"
#include "common/parallel.hpp"
#include "simd/loops.hpp"

namespace mx::cpu {
namespace {

// Elements that are moved together: a line of the cache in each row, or one per point of the window.
constexpr int64_t kTile = 16;
// Elements of every filter that are transposed together, so that they are scaled in the nearest cache.
constexpr int64_t kRows = 64;
// Elements that a thread scales at a time.
constexpr int64_t kGrain = 16 << 10;

// The offsets of all elements of a filter, in logical order.
std::vector<int64_t> offsets(const Dims& extents, const Dims& strides) {
  std::vector<int64_t> found = {0};
  for (size_t axis = 1; axis < extents.size(); ++axis) {
    std::vector<int64_t> finer;
    finer.reserve(found.size() * static_cast<size_t>(extents[axis]));
    for (const int64_t offset : found)
      for (int64_t i = 0; i < extents[axis]; ++i) finer.push_back(offset + i * strides[axis]);
    found = std::move(finer);
  }
  return found;
}

// Rows of a matrix, each element multiplied by that of its column.
MX_CLONES(void, scale_columns, (float* to, int64_t stride, int64_t n_rows, const float* scale, int64_t n),
          (to, stride, n_rows, scale, n)) {
  for (int64_t i = 0; i < n_rows; ++i)
    for (int64_t column = 0; column < n; ++column) to[i * stride + column] *= scale[column];
}

// The first `there` filters of a block that is a transposition.
void transpose_block(const FilterBlocks& blocks, const float* rows, const float* scale, int64_t there, float* out) {
  const auto n = static_cast<int64_t>(blocks.moves.size());
  for (int64_t i = 0; i < n; i += kRows) {
    const int64_t n_rows = std::min(kRows, n - i);
    float* to = out + i * blocks.stride;
    loops().transpose32(to, blocks.stride, rows + i, n, n_rows, there);
    if (scale != nullptr) scale_columns(to, blocks.stride, n_rows, scale, there);
    for (int64_t row = 0; row < n_rows; ++row) {
      std::fill(to + row * blocks.stride + there, to + row * blocks.stride + blocks.width, 0.f);
    }
  }
}

// The distance at which the elements of a filter lie, if they come in the order in which the rows have them; else 0.
int64_t stride_of(const std::vector<FilterBlocks::Move>& moves) {
  const int64_t stride = moves.size() > 1 ? moves[1].to : 0;
  for (size_t i = 0; i < moves.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    if (moves[i].from != place || moves[i].to != place * stride) return 0;
  }
  return stride;
}

bool is_float32(const MemoryDesc& desc) {
  return desc.get_data_type() == DataType::f32 && desc.get_format_kind() == dnnl::memory::format_kind::blocked;
}

}  // namespace

std::optional<FilterBlocks> filter_blocks(const MemoryDesc& rows, const MemoryDesc& packed) {
  if (!is_float32(rows) || !is_float32(packed)) return std::nullopt;
  const Dims whole = rows.get_inner_blks(), widths = packed.get_inner_blks(), axes = packed.get_inner_idxs();
  if (!whole.empty() || axes.size() != 1 || axes[0] != 0) return std::nullopt;
  const Dims extents = packed.get_dims(), padded = packed.get_padded_dims();
  if (!std::equal(extents.begin() + 1, extents.end(), padded.begin() + 1)) return std::nullopt;
  const std::vector<int64_t> from = offsets(extents, rows.get_strides()), to = offsets(extents, packed.get_strides());
  const auto n = static_cast<int64_t>(from.size());
  if (n == 0 || rows.get_strides()[0] != n || *std::max_element(from.begin(), from.end()) != n - 1) return std::nullopt;
  FilterBlocks made{extents[0], widths[0], packed.get_strides()[0], {}, 0};
  made.moves.reserve(from.size());
  const int64_t channels = extents[1], taps = n / channels;
  for (int64_t first = 0; first < channels; first += kTile) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t channel = first; channel < std::min(channels, first + kTile); ++channel) {
        const auto i = static_cast<size_t>(channel * taps + tap);
        made.moves.push_back({from[i], to[i]});
      }
    }
  }
  made.stride = stride_of(made.moves);
  return made;
}

void pack_filters(const FilterBlocks& blocks, const float* rows, const float* scale, float* packed) {
  const auto n = static_cast<int64_t>(blocks.moves.size());
  const FilterBlocks::Move* moves = blocks.moves.data();
  parallel_for((blocks.filters + blocks.width - 1) / blocks.width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * blocks.width, there = std::min(blocks.width, blocks.filters - first);
      float* out = packed + block * blocks.step;
      if (blocks.stride > 0) {
        transpose_block(blocks, rows + first * n, scale == nullptr ? nullptr : scale + first, there, out);
        continue;
      }
      for (int64_t tile = 0; tile < n; tile += kTile) {
        const int64_t last = std::min(n, tile + kTile);
        for (int64_t filter = 0; filter < there; ++filter) {
          const float* row = rows + (first + filter) * n;
          const float factor = scale == nullptr ? 1.f : scale[first + filter];
          for (int64_t i = tile; i < last; ++i) out[moves[i].to + filter] = row[moves[i].from] * factor;
        }
        for (int64_t filter = there; filter < blocks.width; ++filter)
          for (int64_t i = tile; i < last; ++i) out[moves[i].to + filter] = 0;
      }
    }
  });
}

void add_filter_blocks(ProgramBuilder& builder, FilterBlocks blocks, Slot rows, Slot scale, Slot packed,
                       OutputMask mask) {
  std::vector<Slot> used = {rows, packed};
  if (scale >= 0) used.push_back(scale);
  builder.host(
      [=, blocks = std::move(blocks)](void* const* slots, const Call&) {
        const auto* factors = scale < 0 ? nullptr : static_cast<const float*>(slots[scale]);
        pack_filters(blocks, static_cast<const float*>(slots[rows]), factors, static_cast<float*>(slots[packed]));
      },
      std::move(used), mask);
}

Slot add_scaled_rows(ProgramBuilder& builder, const MemoryDesc& matrix, int64_t n_rows, Slot rows, Slot scale,
                     OutputMask mask) {
  const Slot scaled = builder.scratch(matrix);
  const int64_t width = static_cast<int64_t>(matrix.get_size() / sizeof(float)) / n_rows;
  builder.host(
      [=](void* const* slots, const Call&) {
        const auto *from = static_cast<const float*>(slots[rows]), *factors = static_cast<const float*>(slots[scale]);
        auto* to = static_cast<float*>(slots[scaled]);
        parallel_for(n_rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(width, 1)), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row)
            for (int64_t i = row * width; i < (row + 1) * width; ++i) to[i] = from[i] * factors[row];
        });
      },
      {rows, scale, scaled}, mask);
  return scaled;
}

}  // namespace mx::cpu
