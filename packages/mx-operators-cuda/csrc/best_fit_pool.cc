// SPDX-License-Identifier: Apache-2.0
//
// Best fit with splitting: large pieces of device memory (arenas) are cut to size, and freed
// neighbours grow together again.  For sizes that never repeat.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "pool.h"

namespace mx::cuda {
namespace {

constexpr size_t kArena = size_t{32} << 20;
constexpr size_t kCut = 512;

class BestFitPool final : public Pool {
  using FreeSet = std::set<std::pair<size_t, char*>>;
  struct Piece {
    size_t size;
    char* arena;
    FreeSet::node_type node;  // of free_ while the piece is used: freeing needs no memory
  };
  using Pieces = std::map<char*, Piece>;

 public:
  explicit BestFitPool(std::unique_ptr<Source> source) : source_(std::move(source)) {}
  ~BestFitPool() override { BestFitPool::release(); }

  void* alloc(size_t bytes, bool* reused) override {
    const size_t size = (bytes + kCut - 1) / kCut * kCut;
    auto found = free_.lower_bound({size, nullptr});
    *reused = found != free_.end();
    if (!*reused) {
      if (!grow(std::max(size, kArena)) && !grow(size)) return nullptr;
      found = free_.lower_bound({size, nullptr});
    }
    char* begin = found->second;
    cut(pieces_.find(begin), size);
    return begin;
  }
  void free(void* data) noexcept override { join(pieces_.find(static_cast<char*>(data))); }
  void direct_free(void* data) noexcept override {
    const auto piece = join(pieces_.find(static_cast<char*>(data)));
    if (piece->second.size == arenas_.at(piece->second.arena)) give(piece);
  }
  void release() noexcept override {
    for (auto arena = arenas_.begin(); arena != arenas_.end();) {
      const auto [begin, size] = *arena++;
      const auto piece = pieces_.find(begin);
      if (piece->second.node.empty() && piece->second.size == size) give(piece);
    }
  }
  uint64_t pooled() const noexcept override { return pooled_; }

 private:
  bool grow(size_t length) {
    auto* arena = static_cast<char*>(source_->take(length));
    if (arena == nullptr) return false;
    try {
      arenas_.emplace(arena, length);
      pieces_.emplace(arena, Piece{length, arena, {}});
      free_.emplace(length, arena);
    } catch (...) {
      pieces_.erase(arena);
      arenas_.erase(arena);
      source_->give(arena);
      throw;
    }
    pooled_ += length;
    return true;
  }

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
    pooled_ -= size;
  }

  // Makes a used piece free, together with its free neighbours.
  Pieces::iterator join(Pieces::iterator piece) noexcept {
    FreeSet::node_type node = std::move(piece->second.node);
    pooled_ += piece->second.size;
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
  void give(Pieces::iterator piece) noexcept {
    char* begin = piece->first;
    free_.erase({piece->second.size, begin});
    pooled_ -= piece->second.size;
    pieces_.erase(piece);
    arenas_.erase(begin);
    source_->give(begin);
  }

  const std::unique_ptr<Source> source_;
  std::map<char*, size_t> arenas_;
  Pieces pieces_;  // all of every arena, in order of address
  FreeSet free_;
  uint64_t pooled_ = 0;
};

}  // namespace

std::unique_ptr<Pool> make_best_fit_pool(std::unique_ptr<Source> source) {
  return std::make_unique<BestFitPool>(std::move(source));
}

}  // namespace mx::cuda
