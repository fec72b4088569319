// SPDX-License-Identifier: Apache-2.0
//
// Items one behind the other, cut into chunks.  Of each chunk every worker adds a part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared_sums.hpp"

namespace mx::kv {

// Some bytes of an item in a chunk.
struct Piece {
  size_t item;
  size_t from;   // in the item
  size_t bytes;
  size_t at;     // in the chunk
  bool last;     // of the item
};

struct Chunk {
  Kind kind;
  int32_t dtype;
  size_t bytes;
  std::vector<Piece> pieces;

  // Calls body(piece, begin, end) for what pieces have in [begin, end) of the chunk.
  template <class Body>
  void each(size_t begin, size_t end, Body&& body) const {
    for (const Piece& piece : pieces) {
      const size_t from = std::max(begin, piece.at), to = std::min(end, piece.at + piece.bytes);
      if (from < to) body(piece, from, to);
    }
  }
};

// Chunks of at most so many bytes, a multiple of 64, or `codes` where codes of gradients are added: these and the first
// values have chunks of their own.  Pieces begin at multiples of 64.
std::vector<Chunk> chunks_of(const std::vector<Item>& items, size_t bytes, size_t codes);

// Where a worker's part of so many bytes begins, at a multiple of 64; that of `workers` is their end.
size_t begin_of(int64_t worker, int64_t workers, size_t bytes) noexcept;

// Writes sums of parts of items to their targets; those of large items past the caches: `fence_streams` must follow.
// Threads: one.
class Adder {
 public:
  explicit Adder(const std::vector<Item>& items) : items_(items) {}

  // To the targets from number n on, at `offset` of a piece; before them to `first` if there is one, through the caches
  // as the first `cached` are.  `sources` are given in order; each may be a target.
  void add(const Piece& piece, size_t offset, size_t bytes, const std::vector<const void*>& sources, void* first,
           size_t n, size_t cached);
  // Copies what is at `from` there.
  void deliver(const Piece& piece, size_t offset, size_t bytes, const char* from, size_t n);

 private:
  void find_targets(const Piece& piece, size_t offset, size_t n);
  bool streams(const Piece& piece) const noexcept;

  const std::vector<Item>& items_;
  std::vector<const void*> source_;
  std::vector<void*> targets_;
};

}  // namespace mx::kv
