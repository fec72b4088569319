// SPDX-License-Identifier: Apache-2.0
//
// Best fit with splitting (Knuth, The Art of Computer Programming 1, 2.5): arenas that come from elsewhere
// are cut to size, and freed neighbours grow together again.  Knows addresses and never touches the memory,
// so it serves any device.  Not thread-safe.
#ifndef MX_CORE_BEST_FIT_HPP_
#define MX_CORE_BEST_FIT_HPP_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace mx {

class BestFit {
 public:
  // The first `size` bytes of the smallest free piece that has them; NULL when none has.  Throws
  // std::bad_alloc, and has then changed nothing but where a free piece is cut.
  void* take(size_t size) {
    const auto found = free_.lower_bound({size, nullptr});
    if (found == free_.end()) return nullptr;
    char* begin = found->second;
    cut(pieces_.find(begin), size);
    return begin;
  }

  // An arena to take from.  Throws std::bad_alloc, and has then changed nothing.
  void add(void* arena, size_t length) {
    auto* begin = static_cast<char*>(arena);
    try {
      arenas_.emplace(begin, length);
      pieces_.emplace(begin, Piece{length, begin, {}});
      free_.emplace(length, begin);
    } catch (...) {
      pieces_.erase(begin);
      arenas_.erase(begin);
      throw;
    }
    footprint_ += length;
    free_bytes_ += length;
  }

  // Gives back what `take` gave.  Needs no memory.
  void give(void* data) noexcept { join(pieces_.find(static_cast<char*>(data))); }

  // The same; where that leaves an arena wholly free, it is forgotten and drop(begin, length) called.
  template <class Drop>
  void give(void* data, const Drop& drop) noexcept {
    const auto piece = join(pieces_.find(static_cast<char*>(data)));
    const auto arena = arenas_.find(piece->second.arena);
    if (piece->second.size == arena->second) forget(arena, drop);
  }

  // Forgets every arena that is wholly free, and calls drop(begin, length) for each.
  template <class Drop>
  void release(const Drop& drop) noexcept {
    for (auto arena = arenas_.begin(); arena != arenas_.end();) {
      const auto here = arena++;
      const Piece& first = pieces_.find(here->first)->second;
      if (first.node.empty() && first.size == here->second) forget(here, drop);
    }
  }

  uint64_t free_bytes() const noexcept { return free_bytes_; }
  // Bytes of all arenas.
  uint64_t footprint() const noexcept { return footprint_; }

 private:
  using FreeSet = std::set<std::pair<size_t, char*>>;
  struct Piece {
    size_t size;
    char* arena;
    FreeSet::node_type node;  // of free_ while the piece is used: freeing needs no memory
  };
  using Pieces = std::map<char*, Piece>;
  using Arenas = std::map<char*, size_t>;

  // Takes the first `size` bytes of a free piece; the rest is a free piece of its own.
  void cut(Pieces::iterator piece, size_t size) {
    const size_t rest = piece->second.size - size;
    if (rest != 0) {
      char* behind = piece->first + size;
      pieces_.emplace(behind, Piece{rest, piece->second.arena, {}});
      try {
        free_.emplace(rest, behind);
      } catch (...) {
        pieces_.erase(behind);
        throw;
      }
    }
    piece->second.node = free_.extract({piece->second.size, piece->first});
    piece->second.size = size;
    free_bytes_ -= size;
  }

  // Makes a used piece free, together with its free neighbours.
  Pieces::iterator join(Pieces::iterator piece) noexcept {
    FreeSet::node_type node = std::move(piece->second.node);
    free_bytes_ += piece->second.size;
    const auto next = std::next(piece);
    if (next != pieces_.end() && is_free_beside(next, piece)) absorb(piece, next);
    if (piece != pieces_.begin()) {
      const auto previous = std::prev(piece);
      if (is_free_beside(previous, piece)) {
        free_.erase({previous->second.size, previous->first});
        previous->second.size += piece->second.size;
        pieces_.erase(piece);
        piece = previous;
      }
    }
    node.value() = {piece->second.size, piece->first};
    free_.insert(std::move(node));
    return piece;
  }
  bool is_free_beside(Pieces::iterator neighbour, Pieces::iterator piece) const noexcept {
    return neighbour->second.node.empty() && neighbour->second.arena == piece->second.arena;
  }
  void absorb(Pieces::iterator piece, Pieces::iterator next) noexcept {
    free_.erase({next->second.size, next->first});
    piece->second.size += next->second.size;
    pieces_.erase(next);
  }
  template <class Drop>
  void forget(Arenas::iterator arena, const Drop& drop) noexcept {
    const auto [begin, length] = *arena;
    free_.erase({length, begin});
    pieces_.erase(begin);
    arenas_.erase(arena);
    free_bytes_ -= length;
    footprint_ -= length;
    drop(static_cast<void*>(begin), length);
  }

  Arenas arenas_;
  Pieces pieces_;  // all of every arena, in order of address
  FreeSet free_;
  uint64_t free_bytes_ = 0;
  uint64_t footprint_ = 0;
};

}  // namespace mx
#endif  // MX_CORE_BEST_FIT_HPP_
