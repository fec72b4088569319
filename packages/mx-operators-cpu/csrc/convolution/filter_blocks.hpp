// SPDX-License-Identifier: Apache-2.0
//
// Filters in blocks, as convolutions read them: some filters side by side, for every point of the window and channel.
#pragma once

#include <optional>
#include <vector>

#include "onednn/primitive_program.hpp"

namespace mx::cpu {

// A transposition by blocks.  Element `from` of filter f goes to f / width * step + to + f % width.
struct FilterBlocks {
  struct Move {
    int64_t from, to;
  };
  int64_t filters, width, step;
  std::vector<Move> moves;  // of every element of a filter, those together that share lines of the cache
  int64_t stride;           // element i goes to i * stride: a matrix is transposed; 0: not so
};

// How filters in rows of memory get into a packed layout of oneDNN's; nothing where that is none of such blocks.
std::optional<FilterBlocks> filter_blocks(const MemoryDesc& rows, const MemoryDesc& packed);

// Every filter is multiplied by its element of `scale`, unless that is null. `packed` takes whole blocks; filters that
// there are not are zero.
void pack_filters(const FilterBlocks& blocks, const float* rows, const float* scale, float* packed);

// `scale`: a slot, or -1 for none.
void add_filter_blocks(ProgramBuilder& builder, FilterBlocks blocks, Slot rows, Slot scale, Slot packed,
                       OutputMask mask);

// The rows of a matrix, each multiplied by its element of `scale`, in scratch memory.
Slot add_scaled_rows(ProgramBuilder& builder, const MemoryDesc& matrix, int64_t n_rows, Slot rows, Slot scale,
                     OutputMask mask);

}  // namespace mx::cpu
