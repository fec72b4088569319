// SPDX-License-Identifier: Apache-2.0
//
// Filters in blocks, as convolutions read them: some filters side by side, for every point of the window and channel.
#pragma once

#include <optional>
#include <vector>

#include "onednn/primitive_program.h"

namespace mx::cpu {

// A transposition by blocks.  Element `from` of filter f goes to f / width * step + to + f % width.
struct FilterBlocks {
  struct Move {
    int64_t from, to;
  };
  int64_t filters, width, step;
  std::vector<Move> moves;  // of every element of a filter, those together that share lines of the cache
};

// How filters in rows of memory get into a packed layout of oneDNN's; nothing where that is none of such blocks.
std::optional<FilterBlocks> filter_blocks(const MemoryDesc& rows, const MemoryDesc& packed);

// `packed` takes whole blocks; filters that there are not are zero.
void pack_filters(const FilterBlocks& blocks, const float* rows, float* packed);

void add_filter_blocks(ProgramBuilder& builder, FilterBlocks blocks, Slot rows, Slot packed, OutputMask mask);

}  // namespace mx::cpu
